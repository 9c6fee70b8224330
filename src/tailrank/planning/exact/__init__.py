"""The induction over budgets for a known finite MDP, exact or in a certified bracket."""
