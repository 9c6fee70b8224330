"""Other learners, on the same protocol."""
