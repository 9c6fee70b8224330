"""The shortfall network: the budget induction without a model, by a network that knows all budgets at once."""
