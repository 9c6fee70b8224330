"""The induction over budgets through the latent table of a low-rank model."""
