"""Parts of `tailrank evaluate` for plans from records: against a known MDP, and against other records."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrank.cli.errors import Failure, say
from tailrank.cli.options import print_json

if TYPE_CHECKING:
    from tailrank.envs.mdp_files.draft import Source
    from tailrank.models.mdp import FiniteMDP
    from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, Policy
    from tailrank.runs.policy_files.storage import Stored

LABELLED = ("states", "actions")


def in_model(folder: str, read: Source) -> tuple[Policy, tuple[str, ...], float]:
    """The plan of a log's folder over the states of an MDP, remarks, and its tau."""
    from tailrank.runs.log_runs import read_log_run

    stored, found = read_log_run(folder)
    if not hasattr(stored.policy, "first") and not hasattr(stored.policy, "law"):
        raise Failure(f"{folder}: its plan acts on observations; judge it by other records with --logs")
    policy = fitted(stored, read.mdp, read.name)
    known, here = len(stored.info["states"]), read.mdp.n_states
    note = (f"{here - known} of {here} states are not in the log",) if known < here else ()
    return policy, note, float(found["result"]["tau"])


def horizon_of_plan(folder: str) -> int:
    """H of the plan in a log's folder."""
    from tailrank.policies.shapes import horizon_of
    from tailrank.runs.log_runs import read_log_run

    stored, _ = read_log_run(folder)
    return horizon_of(stored.policy) or 1


def fitted(stored: Stored, mdp: FiniteMDP, name: str) -> BudgetPolicy | ClonedPolicy:
    """The plan of a log over the states of an MDP, matched by name or number."""
    import numpy as np

    from tailrank.policies.relabel import places, relabelled
    from tailrank.policies.tables import ClonedPolicy

    policy: Any = stored.policy
    cloned = isinstance(policy, ClonedPolicy)
    H = policy.horizon if cloned else policy.first.shape[0]
    if mdp.horizon != H:
        raise Failure(f"policy: has {H} steps, {name} has {mdp.horizon}")
    states, actions = (
        places(stored.info[what], among, what[:-1])
        for what, among in zip(LABELLED, (mdp.labels, mdp.action_labels), strict=True)
    )
    available = np.diff(mdp.ptr).reshape(mdp.n_blocks, mdp.n_states, mdp.n_actions) > 0
    if cloned:
        # States that the log does not have: every action alike.
        law = available.all(axis=0) / available.all(axis=0).sum(axis=1, keepdims=True)
        law[states] = 0.0
        law[np.ix_(states, actions)] = policy.law
        return ClonedPolicy(law, H)
    lowest = np.broadcast_to(available.argmax(axis=2), (H, mdp.n_states))
    return relabelled(policy, states, actions, lowest)


def off_policy(
    policy: str,
    source: str,
    taus: tuple[float, ...],
    confidence: float,
    seed: int,
    bounds: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """Print what the saved policy (or a run's) earns by the records in `source`, which it was not made from."""
    from tailrank import checks
    from tailrank.envs.logs.read import read_log
    from tailrank.episodes.streams import Streams
    from tailrank.learning.offline.importance import judged
    from tailrank.learning.offline.limits import return_limits, reward_limits
    from tailrank.policies.shapes import horizon_of

    if not 0.0 < checks.number(confidence, "confidence") < 1.0:
        raise Failure(f"--confidence {confidence}: must lie in (0, 1)")
    stored, own = _stored(policy)
    labels: dict[str, Any] = {}
    for what in LABELLED:
        if isinstance(stored.info.get(what), list):
            labels[what] = tuple(stored.info[what])
    played: Any = stored.policy
    if hasattr(played, "n_features"):
        steps, on_states = played.horizon, False
        labels.pop("states", None)
    else:
        table = getattr(played, "first", getattr(played, "law", getattr(played, "actions", None)))
        if table is None or table.ndim < 2:
            raise Failure(f"{policy}: a {type(played).__name__} does not act on the states of a log")
        on_states, steps = True, horizon_of(played) or len(table)
        labels.setdefault("states", tuple(range(table.shape[0 if hasattr(played, "law") else 1])))
    log = read_log(source, horizon=steps, **labels)
    if on_states != (log.observation is None):
        raise Failure(f"{source}: must have {'states' if on_states else 'observations'}, which the policy acts on")
    if log.observation is not None and log.observation.shape[1] != played.n_features:
        found = log.observation.shape[1]
        raise Failure(f"{source}: has observations of {found} numbers, the policy of {played.n_features}")
    discount = getattr(getattr(played, "grid", None), "discount", 1.0)
    ends = return_limits(log, reward_limits(log, None)[0], discount, bounds)
    levels = checks.tail_levels(taus or (own,))
    streams = Streams(checks.whole(seed, "seed", least=0))
    found = [
        judged(played, log, tau, delta=1.0 - confidence, ends=ends, discount=discount, rng=streams.evaluation(0))
        for tau in levels
    ]
    notes = [*log.notes]
    if found[0].estimated:
        notes.append("the log has no probabilities: its frequencies stand for them, so no bound is certain")
    if bounds is None:
        notes.append(f"returns are assumed to lie in [{ends[0]:g}, {ends[1]:g}]; --bounds LOW HIGH says otherwise")
    if found[0].effective < 30:
        notes.append(
            f"the effective sample size is {found[0].effective:.3g} episodes: the records say little of this policy"
        )
    if as_json:
        rows = [asdict(one) | {"method": "importance weights"} for one in found]
        print_json({"results": rows, "notes": notes}, notes, quiet=False)
        return
    for one in found:
        point = "no episode of the log is one of the policy" if one.cvar is None else f"{one.cvar:.6g}"
        marked = "about " if one.estimated else ""
        say(f"CVaR at tau = {one.tau:g}  {point}, in [{one.lower:.6g}, {one.upper:.6g}] {marked}{one.confidence:g}")
        say(f"VaR            {_text(one.var)}, in [{one.var_lower:.6g}, {one.var_upper:.6g}]")
        say(f"mean           {_text(one.mean)}, in [{one.mean_lower:.6g}, {one.mean_upper:.6g}]")
        say(f"clipped at {one.clip:.4g}: CVaR {_text(one.clipped)}")
    say(
        f"{one.episodes} episodes judge, {one.matched} are the policy's; "
        f"effective {one.effective:.4g}, largest weight {one.largest:.4g}"
    )
    for line in notes:
        say(f"note: {line}")


def _stored(policy: str) -> tuple[Stored, float]:
    """The policy of a file or a folder, and the tau that it is for."""
    from tailrank.runs import folder as files
    from tailrank.runs.log_runs import is_log_run, read_log_run
    from tailrank.runs.policy_files.storage import load

    if is_log_run(policy):
        stored, found = read_log_run(policy)
        return stored, float(found["result"]["tau"])
    stored = load(Path(policy) / files.PLAN if Path(policy).is_dir() else policy)
    tau = stored.info.get("tau", (stored.info.get("plan") or {}).get("tau", 0.1))
    return stored, float(tau)


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"
