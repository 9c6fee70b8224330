"""Policies as files: arrays and a header, checked against each other."""
