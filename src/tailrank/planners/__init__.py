"""Planners: from a known model to a policy."""
