"""Environments of this package, each with a known answer."""
