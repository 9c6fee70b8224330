"""The lower convex hull of points in order, compiled."""

from __future__ import annotations

from tailrank._system.jit import frugal


@frugal
def lower_hull(x, y, hull):
    """How many points the lower convex hull of (x, y) [n] has, x increasing; which they are is put into hull [n]."""
    m = 0
    for i in range(x.size):
        while m > 1:
            a, b = hull[m - 2], hull[m - 1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            m -= 1
        hull[m] = i
        m += 1
    return m
