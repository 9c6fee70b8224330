"""A clone of whoever made a log of observation vectors: a softmax of the observation, the same at every step.

    pi(a | x) = softmax(W (x - centre) / spread + c)_a,

the W and c that make the log's actions most likely, less PRICE |W|^2 / 2 for each: where actions do not depend on what
is seen, W stays at zero.
"""

from __future__ import annotations

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.logs.log import EpisodeLog
from tailrank.policies.softmax import Network, SoftmaxPolicy, softmax

PRICE = 1.0
SAMPLE = 20_000
"""Transitions that it is fitted to."""
CLONED = "the policy that is returned acts as whoever made the log did, if they drew from a softmax of the observation"


def softmax_clone(log: EpisodeLog, rng: np.random.Generator) -> SoftmaxPolicy:
    """The clone, which draws its actions."""
    from scipy.optimize import minimize

    if log.observation is None:
        raise InputError(f"{log.name}: has no observation vectors")
    some = np.sort(rng.permutation(log.transitions)[:SAMPLE])
    x, actions, A = log.observation[some], log.action[some], len(log.actions)
    centre, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
    z, taken = np.hstack([(x - centre) / spread, np.ones((len(x), 1))]), np.eye(A)[actions]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(-1, A)
        p = softmax(z @ weights)
        bent = PRICE * np.vstack([weights[:-1], np.zeros((1, A))])
        fit = -float(np.log(np.maximum(p[np.arange(len(z)), actions], 1e-300)).sum())
        return fit + 0.5 * float((bent * weights).sum()), (z.T @ (p - taken) + bent).ravel()

    found = minimize(loss, np.zeros(z.shape[1] * A), jac=True, method="L-BFGS-B").x.reshape(-1, A)
    head = found[:-1] / spread[:, None]
    steps = (log.horizon, 1, 1)
    network = Network((), np.tile(head, steps), np.tile(found[-1] - centre @ head, (log.horizon, 1)))
    return SoftmaxPolicy(network, np.random.default_rng(0))
