"""Decoders: from an observation to the probabilities of latent states."""
