"""ELA where only observations are seen."""
