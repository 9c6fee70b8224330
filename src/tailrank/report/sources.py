"""From what the user names to what a report is about: a model, a policy file with its model, a plan, or runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tailrank.checks import InputError
from tailrank.envs import ENVIRONMENTS, Source, make_episodic
from tailrank.envs.mdp_files.formats import suffixes
from tailrank.models.grid import BudgetGrid
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.criteria.registry import evaluate_levels
from tailrank.planning.exact.return_law import Evaluation, return_law
from tailrank.planning.plan import Plan
from tailrank.policies.tables import LevelPolicy, Policy
from tailrank.report._about import facts_of_mdp, facts_of_plan, facts_of_runs, is_warning, versions, warnings_of
from tailrank.report._domain import labels_of
from tailrank.report.problem import Offered
from tailrank.report.records import of_log_runs
from tailrank.report.subject import Shown, Subject
from tailrank.runs.policy_files import storage
from tailrank.runs.read import Run

Reader = Callable[[str], Source]
"""Reads an MDP from a file or an environment with the user's options."""
MOST_RUNS, MAPPED = 200, 8
NOT_FIRST = "of several runs the first is drawn; write a report of this run alone"


def of_sources(
    sources: Sequence[str],
    read: Reader,
    *,
    tau: float | None,
    seed: int = 0,
    seconds: float = 60.0,
    imports: Sequence[str] = (),
) -> Subject:
    """The subject that `sources` name: folders of runs; a policy file and an MDP; or an MDP.

    imports: packages that the configurations of runs may have imported.
    """
    folders = [Path(source) for source in sources if Path(source).is_dir()]
    if folders:
        if len(folders) < len(sources):
            other = next(source for source in sources if not Path(source).is_dir())
            raise InputError(f"{other}: is no folder of a run; runs are reported on their own")
        if tau is not None:
            raise InputError("tau: a run has its own; move the slider of the report instead")
        return of_log_runs(folders) or of_runs(folders, imports=imports)
    if _is_policy(sources[0]):
        if len(sources) != 2:
            more = "give the MDP it plays in as the one other source, or the folder of the run that learned it"
            raise InputError(f"{sources[0]}: is a policy; {more}")
        return of_policy(Path(sources[0]), mdp_of(sources[1], read), tau=tau, seed=seed, seconds=seconds)
    if len(sources) > 1:
        raise InputError(f"{sources[1]}: a report is of one MDP, of a policy file and its MDP, or of runs")
    source = mdp_of(sources[0], read)
    problem = Offered.solve(source.name, source.mdp, 0.1 if tau is None else tau, seconds=seconds)
    return of_problem(problem, seed=seed, notes=source.notes)


def mdp_of(source: str, read: Reader) -> Source:
    """The MDP of a source; an environment for learners stands for its true MDP on groups."""
    if source in ENVIRONMENTS:
        env = make_episodic(source)
        return Source(env.truth, source, env.notes)
    return read(source)


def _is_policy(source: str) -> bool:
    return Path(source).is_file() and not source.lower().endswith(suffixes())


def of_plan(plan: Plan, mdp: FiniteMDP | None, name: str, *, seed: int = 0) -> Subject:
    """The subject of a plan; `mdp` is what it was made for, for the parts that need it."""
    return of_problem(Offered(name, plan, mdp, plan.notes), seed=seed)


def of_problem(problem: Offered, *, seed: int = 0, notes: tuple[str, ...] = ()) -> Subject:
    """The subject of a plan and its MDP."""
    plan, mdp = problem.plan, problem.mdp
    labels = () if mdp is None else tuple(labels_of(mdp, problem.name, _own_labels(problem.name)))
    goal = f"The policy with the best CVaR at tau = {plan.tau:g}"
    if plan.criterion != "cvar":
        goal = f"The policy of the criterion {plan.criterion} at tau = {plan.tau:g}"
    absent = {} if mdp is not None else dict.fromkeys(("episodes", "domain"), "The plan came without its MDP.")
    shown = Shown(
        f"best at tau = {plan.tau:g}" if plan.criterion == "cvar" else plan.criterion,
        plan.tau,
        plan.policy,
        plan.evaluation,
        problem=0,
        mdp=mdp,
        labels=labels,
        seed=seed,
        absent=absent,
    )
    return Subject(
        problem.name,
        goal,
        plan.tau,
        (shown,),
        (problem,),
        about=(*facts_of_plan(plan), *([facts_of_mdp(mdp)] if mdp is not None else []), versions()),
        warnings=tuple(plan.notes),
        notes=notes,
    )


def with_solution(subject: Subject, tau: float, *, seed: int = 0, seconds: float = 60.0) -> Subject:
    """The subject with the best policy of its first problem at another tau in front."""
    before = next((problem for problem in subject.problems if problem.mdp is not None), None)
    if before is None or before.mdp is None:
        raise InputError("solve: there is no finite MDP to solve")
    fresh = of_problem(Offered.solve(before.name, before.mdp, tau, seconds=seconds), seed=seed)
    if not subject.runs and subject.policies[0].policy is before.plan.policy:
        return replace(fresh, notes=subject.notes)
    others = tuple(replace(s, problem=None if s.problem is None else s.problem + 1) for s in subject.policies)
    return replace(subject, policies=(*fresh.policies, *others), problems=(*fresh.problems, *subject.problems), tau=tau)


def _own_labels(name: str) -> tuple[str, ...]:
    return tuple(make_episodic(name).labels) if name in ENVIRONMENTS else ()


def of_policy(path: Path, source: Source, *, tau: float | None, seed: int = 0, seconds: float = 60.0) -> Subject:
    """The subject of a saved policy in the MDP of `source`."""
    stored = storage.load(path)
    level = stored.tau if tau is None else tau
    problem = Offered.solve(source.name, source.mdp, 0.1 if level is None else level, seconds=seconds)
    evaluation = _law_of(stored.policy, source, problem.grid)
    labels = tuple(labels_of(source.mdp, source.name, _own_labels(source.name)))
    shown = Shown(
        path.name, problem.plan.tau, stored.policy, evaluation, problem=0, mdp=source.mdp, labels=labels, seed=seed
    )
    facts = [(str(k), str(v)[:200]) for k, v in stored.info.items() if k not in ("states", "actions", "plan")]
    return Subject(
        source.name,
        f"The policy saved in {path.name}",
        problem.plan.tau,
        (shown,),
        (problem,),
        about=(("Policy file", (("file", path.name), *facts)), facts_of_mdp(source.mdp), versions()),
        warnings=tuple(problem.plan.notes),
        notes=source.notes,
    )


def _law_of(policy: Policy, source: Source, grid: BudgetGrid | None) -> Evaluation:
    if not isinstance(policy, LevelPolicy):
        return return_law(policy, source.mdp, grid)
    mdp = source.mdp.merged()
    same = policy.actions.shape[:2] == (mdp.horizon, mdp.n_states) and policy.n_actions == mdp.n_actions
    if not same or not np.array_equal(policy.ptr, mdp.ptr):
        raise InputError(f"policy: over confidence levels, was made for another MDP than {source.name}")
    return evaluate_levels(policy, mdp, grid)


def of_runs(
    folders: Sequence[Path], known: dict[str, Offered] | None = None, *, imports: Sequence[str] = ()
) -> Subject:
    """The subject of one or several runs. known: problems that were solved before, by environment; added to.

    imports: packages that their configurations may have imported.
    """
    if not folders:
        raise InputError("runs: at least one folder must be given")
    if len(folders) > MOST_RUNS:
        raise InputError(f"runs: a report shows at most {MOST_RUNS}, found {len(folders)}")
    runs = [Run.read(folder, tuple(imports)) for folder in folders]
    known = {} if known is None else known
    problems: dict[str, Offered] = {}
    policies = []
    for i, run in enumerate(runs):
        key = str(run.manifest.get("environment") or run.kind)
        if key not in known and run.truth is not None:
            known[key] = Offered.solve(Path(str(run.config.get("environment"))).name, run.truth, run.tau)
        if key in known:
            problems[key] = known[key]
        shown = _policy_of_run(run, list(problems).index(key) if key in problems else None)
        policies.append(replace(shown, mapped=i < MAPPED, recipe=run.recipe if i == 0 else NOT_FIRST))
    names = list(dict.fromkeys(str(run.config.get("environment")) for run in runs))
    title = Path(names[0]).name if len(names) == 1 else f"{len(names)} environments"
    algorithms = ", ".join(sorted({str(run.config.get("algorithm", "ela")).upper() for run in runs}))
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    return Subject(
        title,
        f"Learned by {algorithms}, {count}",
        runs[0].tau,
        tuple(policies),
        tuple(problems.values()),
        tuple(runs),
        about=facts_of_runs(runs),
        warnings=warnings_of(runs),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes if not is_warning(note))),
    )


def _policy_of_run(run: Run, problem: int | None) -> Shown:
    policy, which = run.policy
    returns, mdp, evaluation = run.returns(), None, None
    absent = {}
    if policy is None:
        absent = dict.fromkeys(("law", "table", "episodes", "domain"), which)
    else:
        mdp = run.mdp_of(policy)
        evaluation = None if mdp is None else return_law(policy, mdp)
    if returns is None and evaluation is None:
        absent.setdefault("law", "There is neither a finite MDP nor a sample of returns to take the law from.")
    own = tuple(getattr(run.environment, "labels", ()) or ())
    labels = () if mdp is None else tuple(labels_of(mdp, str(run.config.get("environment")), own))
    name = f"seed {run.seed}" + (f": {which}" if policy is not None and which else "")
    return Shown(
        f"{run.folder.name}, {name}",
        run.tau,
        policy,
        evaluation,
        None if evaluation is not None else returns,
        problem,
        mdp,
        labels,
        run.seed,
        absent,
        run.interval,
        run.beside(),
        run.action_names,
    )
