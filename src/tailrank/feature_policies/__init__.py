"""Policies on features that the rivals of `rivals_rich` learn; all can be saved and loaded (`files`)."""
