"""Every kind of file that is read, small and whole, and what is done with it: to be damaged and used all the same."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Discrete
from safetensors.numpy import load as parse
from safetensors.numpy import save as pack

from fuzz_mutations import damaged
from tailrank import FiniteMDP, InputError, evaluate, load, save, solve
from tailrank.cli.policy_table import policy_table
from tailrank.comparison import compare
from tailrank.comparison.page import page as compare_page
from tailrank.envs import read_mdp, write_mdp
from tailrank.envs.gymnasium.actions import Actions
from tailrank.envs.gymnasium.spaces import Encoder
from tailrank.learning.registry import COUNTABLE
from tailrank.planning.exact.return_law import return_law
from tailrank.policies.kernel import BudgetScale
from tailrank.policies.moved import Moved
from tailrank.policies.shortfall import ShortfallPolicy
from tailrank.policies.tables import BudgetPolicy, LevelPolicy, MarkovPolicy
from tailrank.report.document import fitting, page
from tailrank.report.sources import of_runs
from tailrank.risk.measures.entropic import Entropic
from tailrank.risk.measures.mean_variance import MeanVariance
from tailrank.risk.measures.target import Target as Reaching
from tailrank.risk.measures.worst_case import WorstCase
from tailrank.runs import folder as files
from tailrank.runs.config import RunConfig
from tailrank.runs.read import EVALUATION
from tailrank.runs.run import resume, run
from tailrank.runs.sweeps.file import Planned, read_sweep
from tailrank.runs.sweeps.sweep import look

MDP = FiniteMDP.from_rows(
    [0, 0, 0, 1, 1],
    [0, 1, 1, 0, 1],
    [1, 0, 1, 0, 2],
    [1, 0.7, 0.3, 1, 1],
    [0.1, 1 / 3, -0.5, 0.2, 2],
    horizon=4,
    labels=("here", "there", "end"),
)
LOCK = {"horizon": 3, "n_actions": 3, "n_states": 6}
SWEEP = b"""seeds = 2
tau = [0.1, 0.5]
iterations = 3
[[environment]]
environment = "risky-lock"
settings = {horizon = 3}
[[algorithm]]
algorithm = "ela"
grid = {batch = [1, 2]}
"""
RIVALS = {"policy-gradient": {"hidden": [3]}, "bins": {}, "kernel": {"representatives": 20}}
OBJECTIVES = {
    "target": Reaching(0.5),
    "entropic": Entropic(0.5),
    "mean-variance": MeanVariance(0.2),
    "worst": WorstCase(),
}
TINY = {"horizon": 3, "n_features": 2, "d": 3, "n_actions": 2}
"""Of the continuous low-rank family."""


@dataclass(frozen=True)
class Target:
    """A file that is whole: its kind (for `damaged`), its bytes, and what is done with bytes in its place."""

    name: str
    kind: str
    data: bytes
    use: Callable[[Path, bytes], None]

    def attempt(self, seed: int, folder: Path) -> str:
        """Use what is left after the damage of this seed; the message of an InputError, or nothing."""
        return self.tried(damaged(self.data, self.kind, np.random.default_rng([seed, len(self.name)])), folder)

    def tried(self, data: bytes, folder: Path) -> str:
        """The same for given bytes."""
        with tempfile.TemporaryDirectory(dir=folder) as inner, quiet():
            try:
                self.use(Path(inner), data)
            except (InputError, OSError) as error:
                return str(error) or "nothing was said"
        return ""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No output, no warnings."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def targets(folder: Path, only: Collection[str]) -> list[Target]:
    """Those with these names; seeds are made in `folder`."""
    with quiet():
        return [MAKERS[name](folder) for name in only]


Maker = Callable[[Path], Target]


def _model(suffix: str, kind: str) -> Maker:
    def make(folder: Path) -> Target:
        write_mdp(MDP, folder / f"m{suffix}")
        return Target(f"mdp {suffix}", kind, (folder / f"m{suffix}").read_bytes(), _use_model(suffix))

    return make


def _plain(folder: Path) -> Target:
    arrays = {"P": np.full((2, 1, 2), 0.5), "R": np.zeros((2, 1)), "horizon": 3, "start": np.array([0.5, 0.5])}
    np.savez(folder / "plain.npz", **arrays)
    return Target("mdp plain .npz", "npz", (folder / "plain.npz").read_bytes(), _use_model(".npz"))


def _use_model(suffix: str) -> Callable[[Path, bytes], None]:
    def use(folder: Path, data: bytes) -> None:
        (folder / f"m{suffix}").write_bytes(data)
        read = read_mdp(folder / f"m{suffix}", horizon=4 if suffix.startswith(".csv") else None)
        if read.mdp.horizon * read.mdp.prob.size < 1000:
            solve(read.mdp, tau=0.3, seconds=0.2, memory="100MB")

    return use


ABOUT = {"source": "m", "states": ["a", "b", "c"], "actions": ["x", "y"], "tau": 0.3}


def _policy(name: str, policy: Callable[[], object], **info: object) -> Maker:
    def make(folder: Path) -> Target:
        save(policy(), folder / "p", info=ABOUT | info)
        return Target(name, "safetensors", (folder / "p").read_bytes(), _use_policy)

    return make


def _use_policy(folder: Path, data: bytes) -> None:
    (folder / "p").write_bytes(data)
    stored = load(folder / "p")
    policy = stored.policy
    with contextlib.suppress(InputError):
        policy_table(stored, step=None, state=None, rows=5)
    if isinstance(policy, BudgetPolicy | MarkovPolicy | LevelPolicy):
        with contextlib.suppress(InputError):
            evaluate(policy, MDP, 0.3, episodes=20, rng=np.random.default_rng(0))
        if not isinstance(policy, LevelPolicy):
            return_law(policy, MDP)
        return
    if "encoder" in stored.info:
        seen = np.zeros((2, 5))
        _, state = stored.predict(seen, episode_start=np.ones(2, dtype=bool))
        stored.predict(seen, stored.reward(state, np.ones(2)))
        return
    seen, memory = np.random.default_rng(0).normal(size=(3, policy.n_features)), policy.start(3)
    for h in range(min(policy.horizon, 3)):
        actions = policy.act(h, seen, memory)
        memory = policy.update(h, Moved(seen, actions, np.ones(3), seen), memory)


def _shortfall() -> ShortfallPolicy:
    """A network with random numbers."""
    rng = np.random.default_rng(0)
    sizes = ((4, 3), (3, 2 * 5))
    net = tuple((rng.normal(size=(1, *s)).astype(np.float32), rng.normal(size=(1, s[1]))) for s in sizes)
    layers = tuple((weight, bias.astype(np.float32)) for weight, bias in net)
    return ShortfallPolicy(layers, np.zeros(2), np.ones(2), BudgetScale(1.0, 0.0, 6, 0.0), 1.0, 4)


def _plan_of(environment: str, settings: dict, **more: object) -> Callable[[], object]:
    """The policy that a short run returns."""

    def made() -> object:
        with tempfile.TemporaryDirectory() as top:
            run(RunConfig.of(environment, settings=settings, **more), Path(top) / "r")
            return load(Path(top) / "r" / files.PLAN).policy

    return made


@cache
def _finished() -> dict[str, bytes]:
    """The files of a finished run."""
    with tempfile.TemporaryDirectory() as top:
        out = Path(top) / "r"
        run(RunConfig.of("risky-lock", iterations=3, settings=LOCK, output_episodes=20), out)
        found = {path.name: path.read_bytes() for path in out.iterdir() if path.name != files.LOCK}
    return found | {EVALUATION: pack({"returns": np.linspace(0, 1, 40)})}


def _record(name: str, kind: str) -> Maker:
    return lambda _: Target(f"run {name}", kind, _finished()[name], _use_record(name))


def _use_record(name: str) -> Callable[[Path, bytes], None]:
    def use(folder: Path, data: bytes) -> None:
        out = _written(folder / "r", _finished() | {name: signed(data) if name == files.CHECKPOINT else data})
        if name == files.CHECKPOINT:
            (out / files.PLAN).unlink()
        config = RunConfig.of("risky-lock", iterations=3, settings=LOCK, output_episodes=20)
        for look_at in (
            lambda: look(Planned("r", config, {}), folder),
            lambda: compare_page(compare(folder), {}),
            lambda: resume(out) if name not in (files.CONFIG, files.CHECKPOINT) else None,
        ):
            with contextlib.suppress(InputError, OSError):
                look_at()
        page(fitting(of_runs([out])))

    return use


def _written(folder: Path, content: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return folder


def _use_sweep(folder: Path, data: bytes) -> None:
    (folder / "s.toml").write_bytes(data)
    read_sweep(folder / "s.toml", folder / "out", make=lambda _: None)


def _checkpoint(name: str, environment: str, settings: dict, **more: object) -> Maker:
    def make(_: Path) -> Target:
        config = RunConfig.of(environment, iterations=4, settings=settings, checkpoint_every=1, **more)
        content = _half_way(config)
        return Target(name, "safetensors", content[files.CHECKPOINT], _use_checkpoint(content))

    return make


def _half_way(config: RunConfig) -> dict[str, bytes]:
    """The files of a run that was stopped after two iterations."""

    def progress(row: dict, *_: object) -> None:
        if row["k"] == 2:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as top:
        out = Path(top) / "r"
        with contextlib.suppress(KeyboardInterrupt):
            run(config, out, progress=progress)
        return {path.name: path.read_bytes() for path in out.iterdir() if path.name != files.LOCK}


def _use_checkpoint(content: dict[str, bytes]) -> Callable[[Path, bytes], None]:
    def use(folder: Path, data: bytes) -> None:
        resume(_written(folder / "r", content | {files.CHECKPOINT: signed(data)}))

    return use


def signed(data: bytes) -> bytes:
    """The checkpoint with the checksum that it must have, if it can be read at all."""
    try:
        arrays = dict(parse(data))
        size = int.from_bytes(data[:8], "little")
        notes = json.loads(data[8 : 8 + size])["__metadata__"]
        notes["sha256"] = files._sha(arrays, notes["mark"])
        return pack({name: np.ascontiguousarray(x) for name, x in arrays.items()}, metadata=notes)
    except Exception:
        return data


def _makers() -> dict[str, Maker]:
    """What makes each target, by its name."""
    here = Path(__file__).resolve().parent
    sys.path += [str(here / folder) for folder in ("policies", "runs") if str(here / folder) not in sys.path]
    from test_feature_policies import MAKE
    from test_storage_observed import KINDS, example

    from fuzz_logs import log, minari

    found: dict[str, Maker] = {"mdp plain .npz": _plain, "sweep": lambda _: Target("sweep", "toml", SWEEP, _use_sweep)}
    for suffix, kind in ((".csv", "csv"), (".csv.gz", "gz"), (".json", "json"), (".npz", "npz")):
        found[f"mdp {suffix}"] = _model(suffix, kind)
    for name in ("cvar", "mean", "chow"):
        found[f"policy {name}"] = _policy(f"policy {name}", partial(solve, MDP, tau=0.3, criterion=name))
    box = {"encoder": Encoder.of(Box(-1, 1, (5,))).to_json(), "actions": Actions.of(Discrete(2)).to_json()}
    for name in KINDS:
        known = box if example(name)[1] == 5 else {}
        found[f"policy of {name}"] = _policy(f"policy of {name}", lambda name=name: example(name)[0], **known)
    for name, make in MAKE.items():
        found[f"policy {name}"] = _policy(f"policy {name}", make)
    for name, objective in OBJECTIVES.items():
        words = f"policy objective {name}"
        found[words] = _policy(words, partial(solve, MDP, tau=0.3, objective=objective))
    small, few = {"horizon": 3, "n_actions": 2}, {"evaluation_episodes": 20}
    kernel = _plan_of("rich-lock", small, algorithm="kernel", iterations=2, planner=RIVALS["kernel"], **few)
    found["policy kernel"] = _policy("policy kernel", kernel)
    few_lowrank = few | {"model": "lowrank", "rank": 2, "batch": 10, "output_episodes": 10}
    found["policy lowrank"] = _policy(
        "policy lowrank", _plan_of("continuous-lowrank", TINY, iterations=2, **few_lowrank)
    )
    found["policy shortfall"] = _policy("policy shortfall", _shortfall)
    found["log .csv"] = log(".csv", "csv")
    if importlib.util.find_spec("pyarrow"):
        found |= {f"log {suffix}": log(suffix, "bytes") for suffix in (".parquet", ".arrow")}
    if importlib.util.find_spec("h5py"):
        found["log minari"] = minari
    kinds = {files.ROWS: "jsonl", files.MANIFEST: "json", files.CONFIG: "toml"}
    for name in (*kinds, files.PLAN, EVALUATION, files.CHECKPOINT):
        found[f"run {name}"] = _record(name, kinds.get(name, "safetensors"))
    for name in COUNTABLE:
        words = f"checkpoint {name}"
        own = LOCK if name != "pcid" else LOCK | {"split": 0.3}
        found[words] = _checkpoint(words, "risky-lock", own, algorithm=name, output_episodes=20)
    for name in ("mixture", "table"):
        words = f"checkpoint observed {name}"
        found[words] = _checkpoint(words, "rich-lock", small, model=name, output_episodes=10, pilot=8, **few)
    words = "checkpoint observed lowrank"
    found[words] = _checkpoint(words, "continuous-lowrank", TINY, **few_lowrank)
    for name, planner in RIVALS.items():
        words, own = f"checkpoint rival {name}", {"planner": planner, "rewards": "learned"}
        found[words] = _checkpoint(words, "rich-lock", small, algorithm=name, **own, **few)
    return found


MAKERS = _makers()
