"""Reports: one HTML file that shows what a policy risks, for every tail fraction, without a network or a library.

from tailrank import read_mdp, report, solve

game = read_mdp("examples/models/betting.json").mdp
report.write(solve(game, tau=0.1), "report.html", mdp=game)
report.write(["runs/a", "runs/b"], "runs.html")
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrank.models.mdp import FiniteMDP
    from tailrank.policies.result import Result

__all__ = ["write"]


def write(
    item: Result | str | Path | Sequence[str | Path],
    path: str | Path,
    *,
    env: Any = None,
    episodes: int = 1000,
    mdp: FiniteMDP | None = None,
    name: str | None = None,
    seed: int = 0,
    imports: Sequence[str] = (),
) -> int:
    """Write the report of what `solve`, `learn`, `learn_logs` or `load` returned, or of folders of runs, to `path`.

    Returned are the bytes written. env: where the policy plays, if it does not know; episodes: that are played there to
    show what it earns. mdp: where the plan was made, for the pictures that need it (other policies, episodes). seed: of
    the episodes. imports: packages that the configurations of runs may have imported; no others are.
    """
    from tailrank.planning.plan import Plan
    from tailrank.report.document import save
    from tailrank.report.results import of_result
    from tailrank.report.sources import of_plan, of_runs

    if isinstance(item, str | Path):
        subject = of_runs([Path(item)], imports=imports)
    elif isinstance(item, Sequence):
        subject = of_runs([Path(folder) for folder in item], imports=imports)
    elif isinstance(item, Plan):
        own = item.source
        place = own.mdp if mdp is None and own is not None else mdp
        subject = of_plan(item, place, name or (own.name if own else "plan"), seed=seed)
    else:
        subject = of_result(item, env if mdp is None else mdp, episodes=episodes, seed=seed)
    return save(subject, path)
