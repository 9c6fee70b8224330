"""MDPs, budget grids, low-rank steps and counts, as plain arrays."""
