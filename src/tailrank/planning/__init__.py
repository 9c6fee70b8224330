"""From a model to a policy, and what that policy earns."""
