"""Gymnasium: simulators, transition tables, checks, and our environments for others."""
