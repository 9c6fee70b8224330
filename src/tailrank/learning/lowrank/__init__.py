"""The maximum-likelihood oracle for low-rank models of observations, and ELA on it."""
