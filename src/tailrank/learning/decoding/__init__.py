"""Finding latent states behind observations."""
