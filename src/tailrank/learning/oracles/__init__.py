"""Maximum-likelihood oracles for one step of a low-rank model (Algorithm 1, line 11)."""
