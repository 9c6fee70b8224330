"""Runs of learners that can be stopped, resumed and measured."""
