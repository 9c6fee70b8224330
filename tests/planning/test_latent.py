"""One step of the latent planner against plain NumPy: every way through its kernels, the same bits on any cores."""

from __future__ import annotations

import numpy as np
import pytest

from tailrank.planning.exact.induction import action_type
from tailrank.planning.latent import planner
from tailrank.planning.latent.planner import backup


def problem(G=7, A=5, d=3, top=4, width=9, laws=3, seed=0):
    """phi, a table that rises as values do, laws with zeros among them, bonus, psi."""
    rng = np.random.default_rng(seed)
    pmf = rng.dirichlet(np.ones(top + 1), size=laws) * (rng.random((laws, top + 1)) < 0.7)
    pmf[:, 0] += 1 - pmf.sum(axis=1)
    table = np.cumsum(rng.uniform(0, 1, (d, width)), axis=1) - 2.0
    phi, psi = rng.dirichlet(np.ones(d), size=(G, A)), rng.dirichlet(np.ones(G), size=4)
    return phi, table, rng.integers(0, laws, (G, A)), pmf, rng.uniform(0, 0.5, (G, A)), psi


def plain(phi, table, law_of, laws, bonus, psi, width):
    """The definition: Q(g, a, c) = -b + sum_x r(x) phi . M(c - x), M constant below zero, of slope one above."""
    c = np.arange(width)[:, None] - np.arange(laws.shape[1])
    above = np.maximum(c - (table.shape[1] - 1), 0)
    moved = table[:, np.clip(c, 0, table.shape[1] - 1)] + above  # [d, W, n]
    Q = np.einsum("gaj,jcx,gax->gac", phi, moved, laws[law_of]) - bonus[:, :, None]
    return Q, psi @ Q.min(axis=1)


def run(parts, width):
    actions = np.empty((parts[0].shape[0], width), dtype=action_type(parts[0].shape[1]))
    return backup(*parts, actions), actions


SHAPES = [
    {},
    {"A": 1},
    {"A": 4},
    {"A": 8},
    {"A": 300, "G": 2},
    {"G": 1},
    {"d": 1},
    {"d": 13},
    {"top": 0, "laws": 1},
    {"width": 1},
    {"G": 40, "A": 6, "laws": 2},  # few laws: applied to the table
    {"G": 40, "A": 6, "laws": 200},  # many: applied to the pairs
    {"G": 300, "A": 3, "d": 20, "width": 700, "top": 10, "laws": 2},  # several chunks and blocks, matrix products
    {"G": 300, "A": 3, "d": 20, "width": 700, "top": 10, "laws": 500},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_step_is_its_definition(shape):
    parts = problem(**shape)
    width = parts[1].shape[1] + parts[3].shape[1] - 1
    found, actions = run(parts, width)
    Q, expected = plain(*parts, width)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    chosen = np.take_along_axis(Q, actions[:, None].astype(int), axis=1)[:, 0]
    np.testing.assert_allclose(chosen, Q.min(axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("A", [2, 4, 7, 9])
def test_ties_go_to_the_lowest_action(A):
    phi, table, _, laws, _, psi = problem(A=A)
    phi[:] = phi[:, :1]
    _, actions = run((phi, table, np.zeros(phi.shape[:2], int), laws, np.zeros(phi.shape[:2]), psi), 12)
    assert (actions == 0).all()


@pytest.mark.parametrize("laws", [2, 500])
def test_the_bits_do_not_depend_on_the_number_of_threads(monkeypatch, laws):
    parts = problem(G=300, A=4, d=20, top=10, width=700, laws=laws)
    monkeypatch.setattr(planner, "PART_PRODUCTS", 1_000_000)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("TAILRANK_THREADS", threads)
        results.append(run(parts, 710))
    assert 300 * 4 * 20 * 710 // 1_000_000 > 3, "several parts"
    for found, actions in results[1:]:
        np.testing.assert_array_equal(found, results[0][0])
        np.testing.assert_array_equal(actions, results[0][1])


def test_above_the_last_budget_nothing_changes():
    """Wider tables than needed hold slope one and the same action: what is left out is known."""
    parts = problem(G=12, A=5, top=4, width=9, seed=3)
    found, actions = run(parts, 13)
    wide, more = run(parts, 20)
    np.testing.assert_allclose(wide[:, :13], found, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(np.diff(wide[:, 12:], axis=1), 1.0, rtol=1e-12)
    assert (more[:, 12:] == actions[:, 12:13]).all()
