"""CVaR-LSVI, the planner of the paper (Algorithm 2)."""
