"""Compiled loops of the pessimistic induction; `induction` has the mathematics. Plain NumPy twins are in the tests.

Rows are compressed: those of the pair k = s A + a are ptr[k] .. ptr[k + 1] - 1, each with its next state (S: the
episode has ended; S + 1: nobody knows), its units and its share of the pair's weight. Tables are [S + 2, W + 1]:
a row a state, a column a budget.
"""

from __future__ import annotations

import math

import numpy as np

from tailrank._system.jit import compiled, nested

ROUNDS = 12
"""Newton steps at most; any number of them gives a bound that holds."""
CLOSE = 1e-3
"""Change of t at which the search ends, relative to t and the mean: the value is then good to its square."""
ALIKE = 0.03
"""The same for log t, where t is small."""
NEAR = 0.1
"""Part of the mean below which t = 0 is tried."""
TINY = 1e-6
"""Part of the mean below which t counts as 0."""


@compiled
def least_mean(x, share, n, radius):
    """The least sum of q x [n] over laws q with sum of share log(share / q) <= radius, where q may also put mass on 0.

    By duality the largest over t >= 0 of exp(sum of share log(t + x) - radius) - t, which no t exceeds. share > 0.
    """
    return least_mean_from(x, share, n, radius, -1.0)[0]


@compiled
def least_mean_from(x, share, n, radius, t):
    """The least mean and the t where it was found; the search begins at t, or where that is negative at a guess."""
    if radius == np.inf:
        return 0.0, -1.0
    mean, square, least = 0.0, 0.0, np.inf
    for i in range(n):
        mean += share[i] * x[i]
        square += share[i] * x[i] * x[i]
        least = min(least, x[i])
    if mean <= 0.0 or radius <= 0.0:
        return max(mean, 0.0), -1.0
    if t < 0.0:
        # Where the ball is small, t + mean is about deviation / sqrt(2 radius).
        t = max(math.sqrt(max(square - mean * mean, 0.0) / (2.0 * radius)) - mean, 0.0)
    best, found, before = 0.0, t, t
    for _ in range(ROUNDS):
        logs, first, second = 0.0, 0.0, 0.0
        for i in range(n):
            y = t + x[i]
            if y <= 0.0:
                logs = -np.inf
                break
            logs += share[i] * math.log(y)
            inverse = share[i] / y
            first += inverse
            second += inverse / y
        if logs == -np.inf:
            # Some x are 0, so the best t is not: leave 0 by a part of the mean.
            t = 0.01 * mean
            continue
        value = math.exp(logs - radius) - t
        if value > best:
            best, found = value, t
        slope = logs + math.log(first) - radius  # its sign is that of the derivative, and it falls with t
        fall = first - second / first
        if fall >= 0.0 or (slope <= 0.0 and t <= TINY * mean):
            break
        if t > mean:
            # Newton in 1 / (t + mean)^2, in which `slope` is nearly linear.
            before, far = t, t + mean
            y = (1.0 + 2.0 * slope / (far * fall)) / (far * far)
            t = max(1.0 / math.sqrt(y) - mean if y > 0.0 else 2.0 * far, 0.1 * t)
            if abs(t - before) <= CLOSE * far:
                break
        elif slope < 0.0 and t <= NEAR * mean and least > 0.0:
            before, t, least = t, 0.0, 0.0  # is it the best? Asked only once
        elif t > 0.0:
            # Newton in log t, in which it is nearly linear where some x are 0.
            change = min(max(-slope / (fall * t), -3.0), 3.0)
            t *= math.exp(change)
            if abs(change) <= ALIKE:
                break
        else:
            t = max(0.5 * before, 0.01 * mean)
    return best, found


@compiled
def least_means(x, share, radius, result):
    """result [m] = the least mean of each row of x [m, n]."""
    for i in range(x.shape[0]):
        result[i] = least_mean(x[i], share, x.shape[1], radius)


@compiled
def _saved_of(x, begin, end, b, next_state, units, after, floor):
    """x[i] = what outcome begin + i saves of budget b (its units and what is saved of the rest), above floor."""
    top = after.shape[1] - 1
    for k in range(begin, end):
        left = b - units[k]
        saved = float(b) if left <= 0 else units[k] + after[next_state[k], min(left, top)]
        x[k - begin] = max(saved - floor, 0.0)


@compiled
def _short_of(x, begin, end, b, next_state, units, after, floor):
    """x[i] = what outcome begin + i leaves short of budget b, with slope one above the table, above floor."""
    top = after.shape[1] - 1
    for k in range(begin, end):
        left = b - units[k]
        short = 0.0 if left <= 0 else after[next_state[k], min(left, top)] + max(left - top, 0)
        x[k - begin] = max(short - floor, 0.0)


@nested
def _add_saved(mean, weight, u, after, floor):
    """mean[b] += weight times what an outcome of u units saves of budget b above floor; after: of its next state."""
    last, W = np.uintp(after.size - 1), np.uintp(mean.size - 1)
    whole = after[last] + u
    for b in range(np.uintp(1), min(u, W) + np.uintp(1)):
        mean[b] += weight * max(b - floor[b], 0.0)
    for b in range(u + np.uintp(1), min(u + last, W) + np.uintp(1)):
        mean[b] += weight * max(u + after[b - u] - floor[b], 0.0)
    for b in range(u + last + np.uintp(1), W + np.uintp(1)):
        mean[b] += weight * max(whole - floor[b], 0.0)


@compiled
def plan_saved(begin, end, A, ptr, next_state, units, share, radius, allowed, after, here, actions, longest):
    """here[s, b] = the largest over allowed actions of the least mean of what is saved; actions [S, W + 1] attain it.

    The last row of `after` is what is saved after an outcome that nobody has seen. A tie goes to the action that comes
    first; where no action saves more than that for sure, actions keep what they held. The least mean is no more than
    exp(-radius) of the mean: the action that was best with a unit less is looked at first, and few others are.
    """
    top, lost, last_budget = here.shape[1] - 1, after.shape[0] - 1, after.shape[1] - 1
    x, floor, hoped, t = np.empty(longest), np.empty(top + 1), np.empty((A, top + 1)), np.empty(A)
    for b in range(top + 1):
        floor[b] = after[lost, min(b, last_budget)]
    for s in range(begin, end):
        for a in range(A):
            k, t[a], hoped[a] = s * A + a, -1.0, 0.0
            if allowed[k] and radius[k] < np.inf:
                for i in range(ptr[k], ptr[k + 1]):
                    weight = share[i] * math.exp(-radius[k])
                    _add_saved(hoped[a], weight, np.uintp(units[i]), after[next_state[i]], floor)
        first_look = 0
        for b in range(1, top + 1):
            best, chosen = 0.0, A
            for j in range(-1, A):
                a = first_look if j < 0 else j
                if (
                    (j == first_look)
                    or hoped[a, b] < best
                    or (hoped[a, b] == best and a > chosen)
                    or hoped[a, b] <= 0.0
                ):
                    continue
                k = s * A + a
                first, last = ptr[k], ptr[k + 1]
                _saved_of(x, first, last, b, next_state, units, after, floor[b])
                value, t[a] = least_mean_from(x, share[first:last], last - first, radius[k], t[a])
                if value > best or (value == best and value > 0.0 and a < chosen):
                    best, chosen = value, a
            if chosen < A:
                actions[s, b], first_look = chosen, chosen
            here[s, b] = floor[b] + best


@compiled
def plan_short(begin, end, A, most, ptr, next_state, units, share, radius, allowed, after, here, longest):
    """here[s, b] = the least over allowed actions of the least mean of what is left short: no policy does better.

    most: units of the best reward. The last row of `after` is what an outcome that nobody has seen may leave short.
    """
    x, top, lost, last_budget = np.empty(longest), here.shape[1] - 1, after.shape[0] - 1, after.shape[1] - 1
    t = np.empty(A)
    for s in range(begin, end):
        t[:] = -1.0
        for b in range(1, top + 1):
            left = b - most
            floor = 0.0 if left <= 0 else after[lost, min(left, last_budget)] + max(left - last_budget, 0)
            best = np.inf
            for a in range(A):
                k = s * A + a
                if not allowed[k]:
                    continue
                first, last = ptr[k], ptr[k + 1]
                if first == last or radius[k] == np.inf:
                    best = 0.0
                    break
                _short_of(x, first, last, b, next_state, units, after, floor)
                value, t[a] = least_mean_from(x, share[first:last], last - first, radius[k], t[a])
                best = min(best, value)
                if best <= 0.0:
                    break
            here[s, b] = floor + (best if best < np.inf else 0.0)


@compiled
def judge_saved(begin, end, A, ptr, next_state, units, share, radius, played, after, here, longest):
    """here[s, b] = the least mean of what the played actions [S, W + 1] save."""
    x, top, lost, last_budget = np.empty(longest), here.shape[1] - 1, after.shape[0] - 1, after.shape[1] - 1
    t = np.empty(A)
    for s in range(begin, end):
        t[:] = -1.0
        for b in range(1, top + 1):
            a = played[s, b]
            k = s * A + a
            first, last = ptr[k], ptr[k + 1]
            floor = after[lost, min(b, last_budget)]
            here[s, b] = floor
            if first < last and radius[k] < np.inf:
                _saved_of(x, first, last, b, next_state, units, after, floor)
                value, t[a] = least_mean_from(x, share[first:last], last - first, radius[k], t[a])
                here[s, b] += value


@compiled
def add_saved_by_action(begin, end, A, ptr, next_state, units, share, radius, after, met, total, longest):
    """total[s, a] += the sum over budgets b of met[s, b] times the least mean of what action a saves of b."""
    x, lost, last_budget = np.empty(longest), after.shape[0] - 1, after.shape[1] - 1
    for s in range(begin, end):
        for b in range(1, met.shape[1]):
            if met[s, b] <= 0.0:
                continue
            floor = after[lost, min(b, last_budget)]
            for k in range(s * A, s * A + A):
                first, last, value = ptr[k], ptr[k + 1], floor
                if first < last and radius[k] < np.inf:
                    _saved_of(x, first, last, b, next_state, units, after, floor)
                    value += least_mean(x, share[first:last], last - first, radius[k])
                total[s, k - s * A] += met[s, b] * value


@compiled
def backup_worth(
    begin, end, A, most, sign, fixed, ptr, next_state, units, share, radius, allowed, after, here, played, longest
):
    """here[s, j] = the best over actions of the worst mean worth (sign 1), or of the best one (sign -1).

    Columns are budgets left, the least first; those of `after` begin `most` (units of the best reward) lower. The last
    row of `after` is what an outcome that nobody has seen leads to. fixed: played [S, W] says the actions; else it is
    filled, and keeps what it held where nothing is surely better than an unseen outcome.
    """
    x, lost = np.empty(longest), after.shape[0] - 1
    for s in range(begin, end):
        for j in range(here.shape[1]):
            unseen = sign * after[lost, j + most if sign > 0.0 else j]
            best = unseen if sign > 0.0 else np.inf
            for a in range(A):
                k = s * A + a
                if (fixed and a != played[s, j]) or not (fixed or allowed[k]):
                    continue
                first, last, value = ptr[k], ptr[k + 1], unseen
                if first < last and radius[k] < np.inf:
                    for i in range(first, last):
                        x[i - first] = max(sign * after[next_state[i], j + most - units[i]] - unseen, 0.0)
                    value += least_mean(x, share[first:last], last - first, radius[k])
                if sign > 0.0 and value > best and not fixed:
                    played[s, j] = a
                best = max(best, value) if sign > 0.0 else min(best, value)
            here[s, j] = sign * (best if best < np.inf else unseen)


@compiled
def reach_next(A, shift, counted, ptr, next_state, units, share, played, mass, after, here, further, cost, visits):
    """Move the mass [S + 2, W + 1] of a step to `further` [S + 2, W' + 1] of the next by the played actions.

    shift: by how much columns of the next step begin lower; counted: 1 where tables hold what is saved, to which a
    reward adds, 0 where they hold what a budget is worth in the end. visits [S A] grows by the mass of each pair,
    cost [S A] by mass times (mean less least mean).
    """
    top, last_budget = here.shape[1] - 1, after.shape[1] - 1
    for s in range(mass.shape[0] - 2):
        for b in range(top + 1):
            m = mass[s, b]
            if m <= 0.0:
                continue
            k = s * A + played[s, b]
            visits[k] += m
            first, last = ptr[k], ptr[k + 1]
            if first == last:
                continue
            mean = 0.0
            for i in range(first, last):
                left = min(max(b + shift - units[i], 0), last_budget)
                value = counted * units[i] + after[next_state[i], left]
                mean += share[i] * (min(value, float(b)) if counted > 0.0 else value)
                further[next_state[i], left] += m * share[i]
            cost[k] += m * (mean - here[s, b])


@compiled
def push_earned(A, begin, ptr, next_state, units, share, played, mass, further):
    """Move the mass [S + 2, E] of (state, units earned) to `further`; the action is that of begin - earned [S, W].

    What a pair that was never seen leads to is the last state, which earns nothing more.
    """
    last_column = played.shape[1] - 1
    for s in range(mass.shape[0] - 2):
        for e in range(mass.shape[1]):
            m = mass[s, e]
            if m <= 0.0:
                continue
            k = s * A + played[s, min(max(begin - e, 0), last_column)]
            if ptr[k] == ptr[k + 1]:
                further[mass.shape[0] - 1, e] += m
            for i in range(ptr[k], ptr[k + 1]):
                further[next_state[i], e + units[i]] += m * share[i]
