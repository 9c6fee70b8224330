"""A small policy that is improved by searching in a learned model: what balancing needs, where values are too coarse."""
