"""Policy gradient with budgets: proximal policy optimisation where a policy sees what is still missing."""
