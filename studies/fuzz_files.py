"""Damage every kind of file that is read, use what is left, and report whatever is not a result or one line.

    python studies/fuzz_files.py [COUNT] [--only WORDS] [--first SEED]

COUNT damages of every file (default 300). They run in a process of their own with bounded memory and time, so that a
crash, an endless loop or a flood of memory is a finding too. The same seed gives the same damage. Exit code 1 if
anything was found.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

MEMORY = 6 * 2**30
"""Bytes of address space; about a third of them are libraries."""
SECONDS = 60


def work(name: str, seeds: range, folder: str, pipe: Any) -> None:
    """Try the seeds of a target; tell which one is about to be tried, and every finding."""
    from fuzz_targets import targets

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable(file=open(Path(folder) / "trace", "w"))  # noqa: SIM115
    signal.signal(signal.SIGALRM, _late)
    (target,) = targets(Path(folder), [name])
    for seed in seeds:
        pipe.send(("try", seed, ""))
        signal.alarm(SECONDS)
        try:
            said = target.attempt(seed, Path(folder))
            if said and (not said.isprintable() or len(said) > 2100):
                pipe.send(("finding", seed, f"message {said[:200]!r}"))
            pipe.send(("refused" if said else "used", seed, ""))
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)
            own = next((frame for frame in reversed(place) if "tailrank" in frame.filename), place[-1])
            where = f"{Path(own.filename).name}:{own.lineno}"
            pipe.send(("finding", seed, f"{type(error).__name__} at {where}: {str(error)[:150]!r}"))
        finally:
            signal.alarm(0)
    pipe.send(("end", 0, ""))


def _late(*_: object) -> None:
    raise TimeoutError(f"took more than {SECONDS} s")


def tried(name: str, seeds: range, found: dict[str, tuple[int, int]]) -> Counter[str]:
    """How often what came out; findings by what they say, with a seed and a count."""
    count: Counter[str] = Counter()

    def note(text: str, at: int) -> None:
        seed, times = found.get(text, (at, 0))
        found[text] = seed, times + 1
        if not times:
            print(f"FOUND with seed {at}: {text}", flush=True)

    while seeds:
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = multiprocessing.get_context("spawn").Pipe(duplex=False)
            child = multiprocessing.get_context("spawn").Process(target=work, args=(name, seeds, folder, theirs))
            child.start()
            theirs.close()
            at, what = seeds.start, ""
            try:
                while (message := ours.recv())[0] != "end":
                    what, at, text = message
                    count[what] += what != "try"
                    if what == "finding":
                        note(f"{name}: {text}", at)
                child.join()
                return count
            except EOFError:  # it died
                child.join()
                trace = (Path(folder) / "trace").read_text() if (Path(folder) / "trace").exists() else ""
                line = next((x.strip() for x in trace.splitlines() if "tailrank" in x), "")
                note(f"{name}: died with {child.exitcode} {line}", at)
                count["finding"] += 1
                seeds = range(at + 1, seeds.stop)
    return count


def main() -> None:
    """Everything that is asked for, a line each."""
    from fuzz_targets import MAKERS

    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("count", type=int, nargs="?", default=300)
    options.add_argument("--only", default="", help="targets with these words in their names")
    options.add_argument("--first", type=int, default=1000, help="the first seed")
    asked = options.parse_args()
    found: dict[str, tuple[int, int]] = {}
    total: Counter[str] = Counter()
    for name in MAKERS:
        if asked.only in name:
            began = time.perf_counter()
            count = tried(name, range(asked.first, asked.first + asked.count), found)
            total += count
            shown = ", ".join(f"{count[what]} {what}" for what in ("used", "refused", "finding"))
            print(f"{name:<32}{shown}, {time.perf_counter() - began:.0f} s", flush=True)
    print(f"{sum(total.values())} files: {total['used']} used, {total['refused']} refused, {total['finding']} findings")
    for text, (seed, times) in found.items():
        print(f"{times} times, first with seed {seed}: {text}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
