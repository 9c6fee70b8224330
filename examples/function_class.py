"""Algorithm 1 on a class of functions: the decoder is unknown, and states are vectors that never repeat.

The lock `lowrank-lock` shows its states through a linear map that nobody knows. The class F holds phi and psi of eight
locks, each with a map, directions and right actions of its own, and seven of the wrong phi once more beside the right
psi. phi changes with the step, so the right member is another one at every step. |F| = 60 whatever the dimension.

    python examples/function_class.py
"""

import math

import numpy as np

from tailrank.envs import make_simulator
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.lowrank.class_ela import FunctionClassELA
from tailrank.risk.law import cvar

H, A, TAU, MOST, FRESH = 5, 4, 0.25, 500, 2000


def member(phi_of, h, psi_of):
    """A pair of functions of raw states: phi of one lock at step h, psi of a lock."""
    return lambda x: phi_of.features(h, x), lambda x: np.exp(psi_of.log_densities(x))


def episodes_needed(env, learner, seed):
    """Episodes until the greedy plan earns 95% of CVaR* in fresh episodes, or None after MOST."""
    streams, star = Streams(seed), env.optimum(TAU)
    state = learner.init(env, streams)
    while state.episodes < MOST:
        state, _ = learner.step(state, env, streams)
        fresh = play_simulator(learner.policy(state, env, streams), env, streams.evaluation_seeds(state.k, FRESH))
        if cvar(fresh.returns, TAU) >= 0.95 * star:
            return state.episodes
    return None


for m in (8, 32, 128):
    locks = [make_simulator("lowrank-lock", horizon=H, n_actions=A, n_features=m, instance=i) for i in range(8)]
    members = [member(lock, h, locks[0]) for lock in locks[1:] for h in range(H - 1)]
    members += [member(lock, h, lock) for lock in reversed(locks) for h in range(H - 1)]  # the truth last
    learner = FunctionClassELA(tau=TAU, members=members, growth=0.15)
    needed = [episodes_needed(locks[0], learner, seed) for seed in (11, 12, 13)]
    print(f"states in R^{m}, |F| = {len(members)}: within 5% of CVaR* after {needed} episodes (three seeds)")
    if m == 8:
        blind = FunctionClassELA(tau=TAU, members=members, growth=0.15, bonus="none")
        print(f"  without bonus: {episodes_needed(locks[0], blind, 11)} ({MOST} played)")

schedule, d = learner.schedule, locks[0].d
print("|F| enters the bonus as log |F|: alpha after 10 iterations is")
for size in (len(members), len(members) ** 2, len(members) ** 4):
    print(f"  {schedule.alpha(10, H, A, d, math.log(size)):.4f} with |F| = {size}")
