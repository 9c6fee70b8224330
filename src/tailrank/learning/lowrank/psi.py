"""What psi may be, by the names of `--psi`: a row of `FAMILIES` each.

A family begins with K psi on places of next observations, and refits them to responsibilities (the M-step of EM). It
never lowers the expected log likelihood sum_ik share_ik log psi_k(z_i), plus the log of its prior.

    gaussian         psi_k = N(mu_k, S_k) (`gaussians.py`)
    discriminative   psi_k(x') / P(x') = q_k(x') / p_k,  q a softmax in features of x', p_k the mean of q_k over what
                     was seen: no density over observations is needed, and kinds may have any shape
    table            next observations that repeat: how often each was of kind k, drawn to how often it was at all

The last two are densities against the next observations that were seen, the first one against Lebesgue measure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from tailrank.checks import InputError
from tailrank.learning.lowrank import gaussians
from tailrank.learning.lowrank.gaussians import Gaussians, responsibilities
from tailrank.policies.softmax import softmax

MOST_BEGUN = 3000
"""Places from which psi begins, at most."""


class Psi(Protocol):
    """K laws of next observations, as places [n, k]."""

    name: ClassVar[str]

    @property
    def n_kinds(self) -> int:
        """K."""
        ...

    def log_densities(self, z: np.ndarray) -> np.ndarray:
        """log psi_k of places [n, k], [n, K]."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For checkpoints."""
        ...


class PsiFamily(Protocol):
    """How psi of a kind begin and are refitted."""

    def begin(self, z: np.ndarray, K: int, rng: np.random.Generator) -> Psi:
        """K psi on places [n, k]."""
        ...

    def refit(self, last: Any, z: np.ndarray, share: np.ndarray) -> Psi:
        """The psi after an M-step from `last`, for places [n, k] with responsibilities share [n, K]."""
        ...


@dataclass(frozen=True)
class GaussianFamily:
    """Shrunk towards pooled [k, k] by nu observations."""

    pooled: np.ndarray
    nu: float

    @classmethod
    def of(cls, z: np.ndarray) -> GaussianFamily:
        """For places [n, k]."""
        k = z.shape[1]
        return cls(np.cov(z.T).reshape(k, k) / 2 + 1e-9 * np.eye(k), 2.0 * k)

    def begin(self, z: np.ndarray, K: int, rng: np.random.Generator) -> Gaussians:
        """A mixture."""
        return gaussians.begin(z[:MOST_BEGUN], K, self.nu, rng)

    def refit(self, last: Gaussians, z: np.ndarray, share: np.ndarray) -> Gaussians:
        """The maximum."""
        return gaussians.refit(z, share, self.pooled, self.nu)


@dataclass(frozen=True)
class Classified:
    """log psi_k = log q_k - log_p_k, where q is the softmax of (1, z, z^2, tanh(z @ hidden + bias)) @ heads [F, K]."""

    name: ClassVar[str] = "discriminative"
    hidden: np.ndarray
    bias: np.ndarray
    heads: np.ndarray
    log_p: np.ndarray

    @property
    def n_kinds(self) -> int:
        """K."""
        return self.log_p.size

    def inner(self, z: np.ndarray) -> np.ndarray:
        """Features [n, F] of places."""
        return np.hstack([np.ones((len(z), 1)), z, z**2, np.tanh(z @ self.hidden + self.bias)])

    def log_densities(self, z: np.ndarray) -> np.ndarray:
        """log q_k - log p_k."""
        logits = self.inner(z) @ self.heads
        top = logits.max(axis=1, keepdims=True)
        return np.asarray(logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True)) - self.log_p)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For checkpoints."""
        return {"hidden": self.hidden, "bias": self.bias, "heads": self.heads, "log_p": self.log_p}


@dataclass(frozen=True)
class ClassifiedFamily:
    """Refitted by L-BFGS from the last heads, a few steps (an M-step follows every epoch). decay pulls weights to 0."""

    start: GaussianFamily
    width: int = 24
    passes: int = 3
    decay: float = 0.5

    @classmethod
    def of(cls, z: np.ndarray) -> ClassifiedFamily:
        """For places [n, k]."""
        return cls(GaussianFamily.of(z))

    def begin(self, z: np.ndarray, K: int, rng: np.random.Generator) -> Classified:
        """A classifier of the parts of a mixture."""
        k = z.shape[1]
        hidden, bias = 1.5 * rng.normal(size=(k, self.width)) / np.sqrt(k), rng.uniform(-1.5, 1.5, size=self.width)
        blank = Classified(hidden, bias, np.zeros((1 + 2 * k + self.width, K)), np.full(K, -np.log(K)))
        share = responsibilities(self.start.begin(z, K, rng).log_densities(z))
        return replace(self, passes=10 * self.passes).refit(blank, z, share)

    def refit(self, last: Classified, z: np.ndarray, share: np.ndarray) -> Classified:
        """Heads that raise sum share (log q - log p) - decay |heads|^2 / 2, and p."""
        from scipy.optimize import minimize

        f, shape = last.inner(z), last.heads.shape
        total = share.sum(axis=0)

        def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
            heads = flat.reshape(shape)
            q = np.maximum(softmax(f @ heads), 1e-300)
            p = q.mean(axis=0)
            found = float((share * np.log(q)).sum() - total @ np.log(p)) - 0.5 * self.decay * float((heads**2).sum())
            pull = total / p / len(q)
            slope = share - q * share.sum(axis=1, keepdims=True) - q * (pull - (q @ pull)[:, None])
            return -found, -(f.T @ slope - self.decay * heads).ravel()

        found = minimize(value, last.heads.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": self.passes})
        heads = found.x.reshape(shape)
        return Classified(last.hidden, last.bias, heads, np.log(softmax(f @ heads).mean(axis=0) + 1e-300))


@dataclass(frozen=True)
class Tabled:
    """log psi_k of the places [V, k] that were met, in rows of logs [V, K], against how often each was met; an unmet
    place has psi_k / P = 1 for every k: it tells nothing."""

    name: ClassVar[str] = "table"
    places: np.ndarray
    logs: np.ndarray

    @property
    def n_kinds(self) -> int:
        """K."""
        return int(self.logs.shape[1])

    def log_densities(self, z: np.ndarray) -> np.ndarray:
        """Looked up."""
        which = looked_up(self.places, z)
        return np.where((which >= 0)[:, None], self.logs[which], 0.0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For checkpoints."""
        return {"places": self.places, "logs": self.logs}


@dataclass(frozen=True)
class TabledFamily:
    """Shares of each place drawn to its share in all, as by `prior` observations."""

    start: GaussianFamily
    places: np.ndarray
    prior: float = 1.0

    @classmethod
    def of(cls, z: np.ndarray) -> TabledFamily:
        """For places [n, k], which must repeat."""
        places = np.unique(np.round(z, DIGITS), axis=0)
        if 2 * len(places) > len(z):
            raise InputError(f"psi = 'table': next observations must repeat, found {len(places)} of {len(z)} different")
        return cls(GaussianFamily.of(z), places)

    def begin(self, z: np.ndarray, K: int, rng: np.random.Generator) -> Tabled:
        """The parts of a mixture, and a little chance: places that lie together need not belong together."""
        which = looked_up(self.places, z)
        mixed = rng.dirichlet(np.ones(K), size=len(self.places))[which]
        share = 0.5 * responsibilities(self.start.begin(z, K, rng).log_densities(z)) + 0.5 * mixed
        return self.refit(None, z, share)

    def refit(self, last: object, z: np.ndarray, share: np.ndarray) -> Tabled:
        """Counts."""
        which = looked_up(self.places, z)
        count = np.zeros((len(self.places), share.shape[1]))
        np.add.at(count, which, share)
        met = np.maximum(np.bincount(which, minlength=len(self.places)) / which.size, 1e-300)[:, None]
        psi = (count + self.prior * met) / (count.sum(axis=0) + self.prior)
        return Tabled(self.places, np.log(psi / met))


DIGITS = 5
"""Places are standardised; they are the same where so many digits are."""


def looked_up(places: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The row [n] of each z [n, k] among rounded places [V, k] in the order of `np.unique`; -1 where it is not."""
    kind = np.dtype((np.void, places.shape[1] * 8))

    def keys(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.round(x, DIGITS) + 0.0, dtype=np.float64).view(kind).ravel()

    known = keys(places)
    order = np.argsort(known)
    found = np.minimum(np.searchsorted(known[order], keys(z)), known.size - 1)
    return np.where(known[order][found] == keys(z), order[found], -1)


FAMILIES: dict[str, Any] = {"gaussian": GaussianFamily, "discriminative": ClassifiedFamily, "table": TabledFamily}
KINDS: dict[str, Any] = {"gaussian": Gaussians, "discriminative": Classified, "table": Tabled}
"""What a family makes; its fields are its arrays."""


def arrays_described(K: int, k: int) -> dict[str, dict[str, str]]:
    """The arrays of each kind of psi, as `check_arrays` reads them."""
    return {
        "gaussian": {"means": f"float64 [{K}, {k}]", "whiteners": f"float64 [{K}, {k}, {k}]"},
        "discriminative": {
            "hidden": f"float64 [{k}, w]",
            "bias": "float64 [w]",
            "heads": f"float64 [{1 + 2 * k}+w, {K}]",
            "log_p": f"float64 [{K}]",
        },
        "table": {"places": f"float64 [V, {k}]", "logs": f"float64 [V, {K}]"},
    }
