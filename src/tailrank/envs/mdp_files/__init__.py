"""Finite MDPs from and to files."""
