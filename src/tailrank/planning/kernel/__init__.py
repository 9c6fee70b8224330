"""The budget induction on representative states."""
