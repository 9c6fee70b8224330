"""EM against scikit-learn's KL-NMF at equal likelihood: `.bench-venv/bin/python benchmarks/em.py [--quick]`.

The maximum-likelihood low-rank model of a step is the KL-optimal non-negative factorisation of its count matrix
[S A, S'], and a multiplicative update is an EM pass up to normalisation (NMF updates its factors in turn, EM both
at once). Both start at the same factors and use one thread. NMF runs a fixed number of iterations; EM is timed
until it is as likely. Seconds are processor time, which other work on the machine disturbs less; compilation and
a first call of each are outside the clock. Prints a table, writes benchmarks/em.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from tailrank.learning.oracles.fit import log_likelihood
from tailrank.learning.oracles.latent_em import LatentEM
from tailrank.models.counts import SparseCounts
from tailrank.models.lowrank import StepModel, draw

ROUNDS = 3
ITERATIONS = (20, 100)
MOST_PASSES = 400


def transitions(n: int, S: int, A: int, d: int, rng: np.random.Generator) -> tuple[StepModel, SparseCounts]:
    """A random low-rank step and n transitions of it, pairs uniform."""
    step = StepModel(rng.dirichlet(np.full(d, 0.3), (S, A)), rng.dirichlet(np.full(S, 0.1), d))
    s, a = rng.integers(0, S, n), rng.integers(0, A, n)
    latent = draw(step.phi[s, a], rng)
    after = np.empty(n, dtype=np.int64)
    for j, law in enumerate(np.cumsum(step.psi, axis=1)):
        mine = latent == j
        after[mine] = np.minimum(np.searchsorted(law, rng.random(int(mine.sum()))), S - 1)
    return step, SparseCounts.of(s, a, after, (S, A, S))


def nmf(matrix: csr_matrix, start: StepModel, iterations: int) -> tuple[StepModel, float]:
    """The step after so many multiplicative updates of both factors, and the seconds they took."""
    d, visits = start.psi.shape[0], np.asarray(matrix.sum(axis=1)).reshape(-1, 1)
    left, right = start.phi.reshape(-1, d) * visits, start.psi.copy()
    model = NMF(d, init="custom", beta_loss="kullback-leibler", solver="mu", max_iter=iterations, tol=0.0)
    began = time.process_time()
    left = model.fit_transform(matrix, W=left, H=right)
    seconds = time.process_time() - began
    size = model.components_.sum(axis=1)
    phi = left * size
    phi = np.where(visits > 0, phi / np.maximum(phi.sum(axis=1, keepdims=True), 1e-300), 1.0 / d)
    return StepModel(phi.reshape(start.phi.shape), model.components_ / size[:, None]), seconds


def em(counts: SparseCounts, start: StepModel, oracle: LatentEM) -> tuple[np.ndarray, float]:
    """The trace and the seconds of an EM run of exactly so many passes."""
    began = time.process_time()
    fit = oracle.fit(counts, rng=np.random.default_rng(0), warm=start)
    return fit.trace, time.process_time() - began


def until(
    counts: SparseCounts, start: StepModel, oracle: LatentEM, trace: np.ndarray, likely: float
) -> tuple[int, float, float]:
    """Passes, seconds (median of rounds) and the log-likelihood of EM when it is at least as likely."""
    if trace[-1] < likely:
        return trace.size, float("nan"), float(trace[-1])
    passes = int(np.argmax(trace >= likely))
    runs = [em(counts, start, replace(oracle, max_iterations=max(passes, 1))) for _ in range(ROUNDS)]
    return passes, float(np.median([seconds for _, seconds in runs])), float(runs[0][0][-1])


def main() -> None:
    """Measure, print, and (unless --quick) write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small problem, no file written")
    quick = parser.parse_args().quick
    n, S, A, d = (20_000, 60, 4, 4) if quick else (1_000_000, 1000, 10, 10)
    warnings.simplefilter("ignore", ConvergenceWarning)
    rng = np.random.default_rng(0)
    truth, counts = transitions(n, S, A, d, rng)
    start = StepModel(rng.dirichlet(np.ones(d), (S, A)), rng.dirichlet(np.ones(S), d))
    matrix = csr_matrix((counts.count, (counts.pair, counts.after)), shape=(S * A, S))
    oracles = {"EM": LatentEM(d, tolerance=0.0), "EM accelerated": LatentEM(d, tolerance=0.0, accelerate=True)}
    nmf(matrix, start, 1)
    em(counts, start, LatentEM(d, max_iterations=1))
    traces = {name: em(counts, start, replace(it, max_iterations=MOST_PASSES))[0] for name, it in oracles.items()}
    rows = []
    print(f"n = {n}, S = {S}, A = {A}, d = {d}, {counts.count.size} cells; log-likelihoods in nats a transition,")
    print(f"truth {log_likelihood(truth, counts) / n:.5f}\n")
    print(f"{'':16} {'passes':>6} {'likelihood':>11} {'seconds':>8} {'ms/pass':>8} {'ratio':>6}")
    for iterations in ITERATIONS:
        runs = [nmf(matrix, start, iterations) for _ in range(1 if iterations > 20 else ROUNDS)]
        seconds, likely = float(np.median([s for _, s in runs])), log_likelihood(runs[0][0], counts)
        rows.append(row("NMF", iterations, likely / n, seconds, iterations, 1.0))
        for name, oracle in oracles.items():
            passes, mine, reached = until(counts, start, oracle, traces[name], likely)
            rows.append(row(name, passes, reached / n, mine, passes + 1, seconds / mine))
    versions = {"python": platform.python_version()}
    versions |= {name: version(name) for name in ("scikit-learn", "numpy", "numba")}
    result = {"n": n, "S": S, "A": A, "d": d, "cells": int(counts.count.size), "versions": versions, "rows": rows}
    if not quick:
        Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


def row(name: str, passes: int, likely: float, seconds: float, timed: int, ratio: float) -> dict[str, object]:
    """Print one line of the table (`timed` passes were on the clock) and return it."""
    print(f"{name:16} {passes:6} {likely:11.6f} {seconds:8.3f} {1e3 * seconds / timed:8.2f} {ratio:6.1f}", flush=True)
    return {
        "name": name,
        "passes": passes,
        "log_likelihood": likely,
        "seconds": seconds,
        "seconds_per_pass": seconds / timed,
        "times_faster": ratio,
    }


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
