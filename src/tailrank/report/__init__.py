"""Reports: one HTML file that shows what a policy risks, for every tail fraction, without a network or a library.

from tailrank import read_mdp, report, solve

game = read_mdp("examples/models/betting.json").mdp
report.write(solve(game, tau=0.1), "report.html", mdp=game)
report.write(["runs/a", "runs/b"], "runs.html")
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrank.models.mdp import FiniteMDP
    from tailrank.planning.plan import Plan

__all__ = ["write"]


def write(
    item: Plan | str | Path | Sequence[str | Path],
    path: str | Path,
    *,
    mdp: FiniteMDP | None = None,
    name: str | None = None,
    seed: int = 0,
    imports: Sequence[str] = (),
) -> int:
    """Write the report of a plan, or of one or several folders of runs, to `path`; the bytes written.

    mdp: where the plan was made, for the pictures that need it (other policies, episodes). seed: of the episodes.
    imports: packages that the configurations of runs may have imported; no others are.
    """
    from tailrank.report.document import save
    from tailrank.report.sources import of_plan, of_runs

    if isinstance(item, str | Path):
        subject = of_runs([Path(item)], imports=imports)
    elif isinstance(item, Sequence):
        subject = of_runs([Path(folder) for folder in item], imports=imports)
    else:
        subject = of_plan(item, mdp, name or "plan", seed=seed)
    return save(subject, path)
