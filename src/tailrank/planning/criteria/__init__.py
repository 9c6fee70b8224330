"""Plans for other criteria than the static CVaR, for comparison."""
