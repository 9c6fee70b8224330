"""Images as a few numbers: an encoder that is trained on what was played, for all candidates alike."""
