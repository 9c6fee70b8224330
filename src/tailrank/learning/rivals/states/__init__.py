"""Rivals that see state numbers."""
