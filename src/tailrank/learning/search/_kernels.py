"""Compiled loops of the search: growing a regression tree, and playing many policies in a model of trees."""

from __future__ import annotations

import numpy as np

from tailrank._system.jit import compiled


@compiled(fastmath=False)
def grow(x, y, order, least, price, feature, threshold, child, begin, stop):
    """Grow a tree of the least squares of y [n, q] on x [n, m]; returns how many nodes it has.

    order [m, n]: rows sorted by each coordinate; at the end, the rows of node i are order[0, begin[i]:stop[i]]. The
    rest is filled by node: the coordinate and the threshold of its split, and its first child (the second is the next
    one), or -1 in a leaf. A split must leave `least` rows on both sides and be worth price log(n) times the variance in
    the node.
    """
    (n, q), m = y.shape, x.shape[1]
    total, part = np.empty(q), np.empty(q)
    low, room = np.zeros(n, dtype=np.bool_), np.empty(n, dtype=order.dtype)
    begin[0], stop[0], child[0] = 0, n, -1
    count, i = 1, 0
    while i < count:
        b, e = begin[i], stop[i]
        size = e - b
        total[:] = 0.0
        square = 0.0
        for p in range(b, e):
            for k in range(q):
                v = y[order[0, p], k]
                total[k] += v
                square += v * v
        base = 0.0
        for k in range(q):
            base += total[k] * total[k] / size
        best, where, at = base + price * np.log(size + 1.0) * max(square - base, 0.0) / size + 1e-9, -1, 0
        for f in range(m):
            if x[order[f, b], f] == x[order[f, e - 1], f]:
                continue
            part[:] = 0.0
            for p in range(b, e - least):
                row = order[f, p]
                for k in range(q):
                    part[k] += y[row, k]
                left = p + 1 - b
                if left < least or x[row, f] == x[order[f, p + 1], f]:
                    continue
                score = 0.0
                for k in range(q):
                    rest = total[k] - part[k]
                    score += part[k] * part[k] / left + rest * rest / (size - left)
                if score > best:
                    best, where, at = score, f, p
        child[i] = -1
        if where >= 0:
            feature[i] = where
            threshold[i] = 0.5 * (x[order[where, at], where] + x[order[where, at + 1], where])
            for p in range(b, e):
                low[order[where, p]] = p <= at
            for f in range(m):
                a, z = b, 0
                for p in range(b, e):
                    row = order[f, p]
                    if low[row]:
                        order[f, a] = row
                        a += 1
                    else:
                        room[z] = row
                        z += 1
                order[f, a:e] = room[:z]
            child[i] = count
            begin[count], stop[count] = b, at + 1
            begin[count + 1], stop[count + 1] = at + 1, e
            count += 2
        i += 1
    return count


@compiled(fastmath=False)
def leaf_of(root, point, feature, threshold, child):
    """The leaf that a point falls into."""
    i = root
    while child[i] >= 0:
        i = child[i] + (point[feature[i]] > threshold[i])
    return i


@compiled(fastmath=False)
def trend_at(s, coefficients, products, result):
    """result [m]: the quadratic function with coefficients [p, m] at s [m]; with products of different coordinates."""
    m = s.size
    result[:] = coefficients[0]
    for i in range(m):
        for k in range(m):
            result[k] += s[i] * coefficients[1 + i, k]
    p = 1 + m
    for i in range(m):
        for j in range(i, m if products else i + 1):
            v = s[i] * s[j]
            for k in range(m):
                result[k] += v * coefficients[p, k]
            p += 1


@compiled(fastmath=False)
def advance(model, s, action, u, w, both):
    """One step from s [m + 1] (its last entry h/H), changed in place; gives the reward and whether the episode is over.

    model: (trend [A, p, m], products, moved, low, high [m], moves, pays, rest [T, m], paid, ended [T],
    linear [A, 2 m + 1]) as in `TreeModel`, moves and pays being (roots [A], feature, threshold, child, begin, stop,
    members) of its trees. u, w in [0, 1): the chance of the step. both [2 m + 1] is room to work in.
    """
    trend, products, moved, low, high, moves, pays, rest, paid, ended, linear = model
    m = s.size - 1
    both[:m], both[2 * m] = s[:m], s[m]
    node = leaf_of(moves[0][action], s, moves[1], moves[2], moves[3])
    b, e = moves[4][node], moves[5][node]
    row = moves[6][b + int(u * (e - b))]
    after = both[m : 2 * m]
    trend_at(s[:m], trend[action], products, after)
    for i in range(m):
        v = rest[row, i] + (after[i] if moved[i] else 0.0)
        after[i] = min(max(v, low[i]), high[i])
    node = leaf_of(pays[0][action], both, pays[1], pays[2], pays[3])
    b, e = pays[4][node], pays[5][node]
    row = pays[6][b + int(w * (e - b))]
    reward = paid[row]
    if not ended[row]:
        reward += linear[action, 2 * m]
        for i in range(2 * m):
            reward += linear[action, i] * both[i]
    s[:m] = after
    return reward, ended[row]


@compiled(fastmath=False)
def play_all(model, theta, first, draws, worst, returns):
    """Fill returns [P, N] with those of P policies theta [P, A, m + 2] in N episodes of the model, and give the steps;
    none is less than `worst`.

    first [N, m]: where episodes begin; draws [N, H, 2] in [0, 1): the chance of every step, the same for all policies.
    """
    P, A, m, horizon = theta.shape[0], theta.shape[1], first.shape[1], draws.shape[1]
    s, both = np.empty(m + 1), np.empty(2 * m + 1)
    steps = 0
    for p in range(P):
        for n in range(first.shape[0]):
            s[:m] = first[n]
            total = 0.0
            for h in range(horizon):
                s[m] = h / horizon
                action, best = 0, -np.inf
                for a in range(A):
                    v = theta[p, a, m + 1]
                    for i in range(m + 1):
                        v += theta[p, a, i] * s[i]
                    if v > best:
                        action, best = a, v
                reward, over = advance(model, s, action, draws[n, h, 0], draws[n, h, 1], both)
                total += reward
                steps += 1
                if over:
                    break
            returns[p, n] = max(total, worst)
    return steps


@compiled(fastmath=False)
def step_all(model, s, actions, draws, over, rewards):
    """A step of every episode that is not over: s [N, m + 1], over and rewards [N] are changed; draws [N, 2]."""
    both = np.empty(2 * s.shape[1] - 1)
    for n in range(actions.size):
        rewards[n] = 0.0
        if not over[n]:
            rewards[n], over[n] = advance(model, s[n], actions[n], draws[n, 0], draws[n, 1], both)
