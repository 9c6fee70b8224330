"""What is played: policies on states, on budgets and on observations."""
