"""Numbers: laws of a return, CVaR, and intervals for them."""
