"""Rivals that see observations: what others would use where only features and rewards are seen."""
