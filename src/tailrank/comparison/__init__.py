"""Runs side by side: how soon they get near the best CVaR, how good they end, what they cost, and how sure that is.

from tailrank.comparison import compare

found = compare("runs/", baseline="ELA")
print(found.methods, found.tasks[0].cells[0].first.median)
"""

from __future__ import annotations

from tailrank.comparison.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
