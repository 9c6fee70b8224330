"""Learning from simulators: a kernel model, its exploration, and the choice among candidates."""
