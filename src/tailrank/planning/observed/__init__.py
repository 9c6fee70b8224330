"""The induction over budgets on observed next states."""
