"""Playing episodes: keyed random numbers and the one rollout."""
