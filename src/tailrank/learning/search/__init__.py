"""A small policy that is improved by searching in a learned model: for balancing, where values are too coarse."""
