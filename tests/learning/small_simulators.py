"""Small simulators for the rivals: a lock that ends early, a choice of risk, and a listed MDP seen through features."""

from __future__ import annotations

import itertools

import numpy as np


class Simulated:
    """Keeps the episodes side by side; `_begin`, `_move` and `_see` are the environment. One generator an episode."""

    name, width = "small", 64

    def reset(self, seeds):
        assert len(seeds) <= self.width
        self._rng = [np.random.default_rng(int(s)) for s in seeds]
        self._h, self._over = 0, np.zeros(len(seeds), dtype=bool)
        self.latent = np.array([self._begin(r) for r in self._rng])
        self._features = np.stack([self._see(0, z, r) for z, r in zip(self.latent, self._rng)])
        return self._features.copy()

    def step(self, actions):
        rewards = np.zeros(len(actions))
        for i in np.flatnonzero(~self._over):
            rewards[i], self.latent[i], self._over[i] = self._move(
                self._h, self.latent[i], int(actions[i]), self._rng[i]
            )
            self._features[i] = self._see(self._h + 1, self.latent[i], self._rng[i])
        self._h += 1
        self._over |= self._h == self.horizon
        return rewards, self._features.copy(), self._over.copy()


class Lock(Simulated):
    """Latents 0 and 1 are good, 2 is lost; `right(h, z)` goes on to 0 or 1, any other action pays `bait` or nothing
    and ends the episode. The last right action pays .8, the next one pays 1 or, with probability .1, nothing.
    """

    def __init__(self, horizon=3, n_actions=3, noise=0.0, bait=0.1):
        self.horizon, self.n_actions, self.n_features, self.noise, self.bait = horizon, n_actions, 4, noise, bait

    def right(self, h, latent):
        return (h + latent) % self.n_actions

    def _begin(self, rng):
        return int(rng.integers(2))

    def _see(self, h, latent, rng):
        return np.eye(4)[latent] + self.noise * rng.normal(size=4)

    def _move(self, h, latent, action, rng):
        chance, after = rng.random(), int(rng.integers(2))
        last, right = h == self.horizon - 1, self.right(h, latent)
        if last and action == (right + 1) % self.n_actions:
            return float(chance >= 0.1), after, True
        if action == right:
            return (0.8 if last else 0.0), after, last
        return self.bait * (chance < 0.5), 2, True


class Choice(Simulated):
    """One step: action 0 pays .8, action 1 pays 1 or, with probability .1, nothing."""

    horizon, n_actions, n_features = 1, 2, 2

    def _begin(self, rng):
        return 0

    def _see(self, h, latent, rng):
        return rng.normal(size=2)

    def _move(self, h, latent, action, rng):
        return (0.8 if action == 0 else float(rng.random() >= 0.1)), 0, True


class Gamble(Simulated):
    """Step 0: action 0 goes on, action 1 pays .5 and ends. Step 1: action 0 pays .7, action 1 pays 2 or nothing."""

    horizon, n_actions, n_features = 2, 2, 1

    def _begin(self, rng):
        return 0

    def _see(self, h, latent, rng):
        return np.zeros(1)

    def _move(self, h, latent, action, rng):
        if h == 0:
            return 0.5 * action, 0, action == 1
        return (0.7 if action == 0 else 2.0 * (rng.random() < 0.5)), 0, True


class Listed:
    """A tiny MDP: two steps, two states with given features, two actions; all its episodes can be listed."""

    horizon, n_actions, n_features = 2, 2, 3

    def __init__(self, rng):
        self.seen = rng.normal(size=(2, 3))
        self.after = rng.dirichlet(np.ones(2), size=(2, 2))  # P(next state | state, action) at the first step
        self.pays = rng.dirichlet(np.ones(2), size=(2, 2, 2))  # P(which of two rewards | step, state, action)
        self.reward = rng.uniform(size=(2, 2, 2, 2))

    def episodes(self):
        """(chance of the environment, states, actions, rewards) of every episode; starts in state 0."""
        for a, s, b, i, j in itertools.product(range(2), repeat=5):
            chance = self.after[0, a, s] * self.pays[0, 0, a, i] * self.pays[1, s, b, j]
            yield chance, (0, s), (a, b), (self.reward[0, 0, a, i], self.reward[1, s, b, j])
