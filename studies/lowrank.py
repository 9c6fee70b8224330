"""Low-rank models of observations: how close to CVaR*, how many episodes, with and without the bonus.

    python studies/lowrank.py [GROUP ...]      all groups, or some; runs that are finished are skipped

Groups: `known` and `learned` (the random family, sizes drawn by the seed, laws of rewards told or not), `lock`,
`small-lock` and `no-bonus` (the low-rank lock), `block` and `dimension` (the rich lock, where a block decoder must stay
in charge), `alone` (the block decoder with no choice, on the same seeds), `views` (the rich lock where one observation
does not tell the latent).
Every run is a line of studies/results/lowrank.jsonl, with the commit that it was made on; docs/lowrank_results.md is
made from it (studies/_lowrank_page.py). The learner is the default one, told nothing but the simulator (and in
`known` the laws of its rewards). Seeds 200 to 204: none was used while the method was built.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from _lowrank_page import page
from _made_on import commit

from tailrank.envs import make_simulator
from tailrank.envs.built_in.rich_lock import RichLock
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.lowrank.ela import LowRankELA
from tailrank.learning.lowrank.function_class import KnownRewards
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.risk.law import cvar

ROOT = Path(__file__).resolve().parent
RUNS = ROOT / "results" / "lowrank.jsonl"
SEEDS = range(200, 205)
TAUS = (0.1, 1.0, 0.25, 0.05)
MARKED, SOLVING = 100_000, 2_000
"""Fresh episodes that judge a plan at a mark, and on the way."""
SURE = 2
"""The law of rewards of a rich lock's safe end."""


def sizes(seed: int) -> dict:
    """The sizes of the continuous family that belong to a seed."""
    rng = np.random.default_rng([7, seed])
    return {
        "d": int(rng.integers(3, 9)),
        "n_actions": int(rng.integers(3, 7)),
        "horizon": int(rng.integers(5, 21)),
        "n_features": int(rng.integers(2, 33)),
        "instance": seed,
    }


def rich(H: int, A: int, limit: int, **more: int) -> dict:
    """The rich lock, solved at 95% of CVaR*."""
    batch = 2 if H >= 50 else 1
    return {"env": "rich-lock", "set": {"horizon": H, "n_actions": A} | more, "limit": limit, "batch": batch}


LOCKS = ((5, 4, 300), (10, 10, 700), (20, 10, 1600), (50, 10, 4000), (100, 10, 8000))
"""H, A and the limit of rich locks."""
GROUPS = {
    "known": [{"env": "continuous-lowrank", "tau": tau, "marks": [500, 2000], "known": True} for tau in TAUS],
    "lock": [{"env": "lowrank-lock", "limit": 3000}],
    "small-lock": [{"env": "lowrank-lock", "set": {"horizon": 4, "n_actions": 3}, "limit": 1000}],
    "no-bonus": [{"env": "lowrank-lock", "limit": 3000, "bonus": "none"}],
    "block": [rich(*x) for x in LOCKS],
    "alone": [rich(*x) | {"alone": True} for x in LOCKS],
    "learned": [{"env": "continuous-lowrank", "tau": tau, "marks": [1000, 4000]} for tau in TAUS],
    "dimension": [rich(10, 10, 2000, dimension=m) for m in (16, 512)],
    "views": [rich(10, 10, 0, noise=x) | {"tau": 0.1, "marks": [400, 1000]} for x in (0.3, 0.2)],
}


def simulator_of(setting: dict, seed: int) -> tuple[dict, object]:
    """The settings of the simulator, and the simulator."""
    more = sizes(seed) if setting["env"] == "continuous-lowrank" else dict(setting.get("set", {}))
    more |= {"lowrank-lock": {"instance": seed}, "rich-lock": {"seed": seed}}.get(setting["env"], {})
    return more, make_simulator(setting["env"], **more)


def best_seen(env: RichLock, tau: float, n: int = 400_000) -> float:
    """CVaR* of a player of a rich lock who knows all but the latent, in n episodes.

    Which good latent comes next is a coin, so the past says nothing of it: the right action of the likelier one is
    best. It is the other one's with probability `decodable`, at every step but the first.
    """
    A, rng, lock = env.n_actions, np.random.default_rng(env.seed), env.lock
    right = [step.phi[:2, :, :2].sum(axis=2).argmax(axis=1) for step in lock.model.steps]
    right.append((lock.rewards.which[-1, :2] == SURE).argmax(axis=1))
    latent, total = np.zeros(n, dtype=np.int64), np.zeros(n)
    for h in range(env.horizon):
        misled = (rng.random(n) < env.decodable) & (h > 0)
        action = right[h][np.where(misled, 1 - latent, latent) % 2]
        row = lock.truth.rows_at(h, latent * A + action, rng.random(n))
        total += lock.truth.rows(h)[3][row]
        latent = lock.truth.rows(h)[1][row].astype(np.int64)
    return cvar(total, tau)


def run(setting: dict, seed: int) -> dict:
    """One run: [episodes, share of CVaR*, promise, seconds, standard error of the share] at the marks, or on the way
    until 95% of CVaR* is reached.

    At a mark the policy that would be returned is judged, made of at most so many episodes.
    """
    more, env = simulator_of(setting, seed)
    tau = setting.get("tau", 0.1)
    star = best_seen(env, tau) if "noise" in more else env.optimum(tau)
    rewards = KnownRewards.of(env) if setting.get("known") else None
    oracle = Discriminative(model="mixture", rank=3) if setting.get("alone") else Discriminative()
    bonus, batch = setting.get("bonus", "elliptical"), setting.get("batch", 1)
    learner = LowRankELA(tau=tau, oracle=oracle, bonus=bonus, batch=batch, rewards=rewards)
    streams, began = Streams(seed), time.process_time()
    state, curve, refitted = learner.init(env, streams), [], True
    spent = time.process_time() - began
    marks, limit = list(setting.get("marks", [])), setting.get("limit", 0)

    def judge(policy: object, n: int) -> float:
        returns = play_simulator(policy, env, streams.evaluation_seeds(state.k, n)).returns
        found = cvar(returns, tau) / star
        error = np.maximum(np.quantile(returns, tau) - returns, 0.0).std() / tau / np.sqrt(n) / star
        promise = policy.plan.objective if isinstance(policy, LowRankPolicy) else learner.promise(state, env)
        curve.append([state.episodes, round(found, 5), round(promise / star, 5), round(spent, 1), round(error, 5)])
        return found

    while True:
        last = state.episodes + learner.next_batch(state) > (marks[0] if marks else limit)
        if marks and last:
            began = time.process_time()
            policy = learner.output(state, env, streams, 0).policy
            spent += time.process_time() - began
            judge(policy, MARKED)
            marks.pop(0)
        looked = bool(limit) and (last or refitted or getattr(state, "fit", None) is not None)
        if looked and judge(learner.greedy(state, env), SOLVING) >= 0.95:
            break
        if not marks and (last or not limit):
            break
        began = time.process_time()
        state, info = learner.step(state, env, streams)
        spent += time.process_time() - began
        refitted = info.refitted
    return {"seed": seed, "sizes": more, "star": star, "curve": curve, "model": state.chosen}


def main(names: list[str]) -> None:
    """Run what is missing of the groups, every seed of a setting before the next, and write the page."""
    made_on = commit()
    for name in names or GROUPS:
        for setting in GROUPS[name]:
            for seed in SEEDS:
                if which({"group": name, "setting": setting, "seed": seed}) in {which(r) for r in read()}:
                    continue
                row = {"group": name, "setting": setting, "commit": made_on} | run(setting, seed)
                RUNS.parent.mkdir(exist_ok=True)
                with RUNS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, setting, seed, row["curve"][-1], row["model"], flush=True)
    page(read(), GROUPS)


def which(run: dict) -> str:
    """What tells runs apart."""
    return json.dumps([run["group"], run["setting"], run["seed"]], sort_keys=True)


def read() -> list[dict]:
    """All finished runs."""
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


if __name__ == "__main__":
    main(sys.argv[1:])
