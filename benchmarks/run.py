"""The exact planner against other packages, every kernel against the machine: `python benchmarks/run.py [--quick]`.

Makes its own environment (.bench-venv), runs every measurement in a fresh process, and writes
benchmarks/results.json and docs/benchmarks.md. No ratio is printed unless all curves agree.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
ENVIRONMENT = ROOT / ".bench-venv"
PYTHON = ENVIRONMENT / "bin" / "python"
OURS = ("tailrank", "tailrank_law", "tailrank_any", "tailrank_kernel")
NAMES = (*OURS, "quantecon", "mdptoolbox", "mdpsolver", "matvec", "numpy", "sparse")
AGREEMENT = 1e-9
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}
DOMAINS = {
    "machine": ("0.8", "100", "1"),
    "ruin": ("0.95", "200", "8"),
    "inventory": ("0.8", "100", "1"),
    "inventory_generic": ("0.9", "100", "1"),
    "riverswim": ("0.98", "100", "1"),
}
"""Published domains: discount, horizon, start (1-based)."""
MILLION = {"within 20 of the present one": "20", "anywhere": "0"}
"""Where next states lie, and `near` of `kernel_cases.local_mdp`."""


def environment() -> None:
    """Make .bench-venv, or bring it up to date when the requirements have changed."""
    locks = [ROOT / "requirements" / name for name in ("build.txt", "peers.txt")]
    wanted = b"".join(path.read_bytes() for path in (*locks, ROOT / "pyproject.toml"))
    stamp, digest = ENVIRONMENT / "requirements.sha256", hashlib.sha256(wanted).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    print("installing the peers into .bench-venv ...", flush=True)
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--no-build-isolation"]
    for path in locks:
        subprocess.run([*command, "--require-hashes", "-r", path], cwd=ROOT, check=True)
    subprocess.run([*command, "--no-deps", "-e", "."], cwd=ROOT, check=True)
    stamp.write_text(digest)


def source_digest() -> str:
    """Which code is measured: a hash of tailrank's source and of the measuring code."""
    files = sorted([*(ROOT / "src").rglob("*.py"), *HERE.glob("*.py")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def child(*arguments: str, **settings: str) -> dict:
    """Result of one measurement in a fresh process, or {"failed": why}."""
    print(" ".join(Path(a).name for a in arguments), "...", flush=True)
    command = [PYTHON, "-W", "ignore", HERE / "measure.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return {"failed": lines[-1].replace(str(ROOT), ".")}


def script(name: str, *arguments: str) -> dict:
    """What another script of this folder prints in its last line, its progress on the terminal."""
    print(name, *arguments, "...", flush=True)
    command = [PYTHON, "-W", "ignore", HERE / name, *arguments]
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def sure(*arguments: str, **settings: str) -> dict:
    """Result of a measurement that the report cannot do without."""
    result = child(*arguments, **settings)
    if "failed" in result:
        raise SystemExit(f"{arguments[0]}: {result['failed']}")
    return result


def check_agreement(contenders: dict[str, dict]) -> float:
    """The largest difference between two curves; stops the program when it is too large."""
    curves = {name: result.pop("curve") for name, result in contenders.items() if "curve" in result}
    if not curves:
        raise SystemExit("\n".join(f"{name}: {result['failed']}" for name, result in contenders.items()))
    first = next(iter(curves.values()))
    worst = 0.0
    for name, curve in curves.items():
        gaps = [abs(x - y) for x, y in zip(first, curve, strict=True)]
        wrong = [gap for gap in gaps if not gap <= AGREEMENT]  # written so that NaN is wrong
        if wrong:
            raise SystemExit(f"{name}: its curve is off by {wrong[0]:.3g}, expected at most {AGREEMENT}")
        worst = max(worst, *gaps)
    return worst


def machine() -> dict[str, object]:
    """Processor, cores, and what one core and all cores reach."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "dgemm_gflops_one_core": sure("dgemm", **ONE_THREAD)["gflops"],
        "dgemm_gflops": sure("dgemm")["gflops"],
        "triad_gbytes_one_core": sure("triad", **ONE_THREAD)["gbytes"],
        "triad_gbytes": sure("triad")["gbytes"],
    }


def domains() -> dict[str, dict]:
    """tailrank.solve on the published domains whose tables are there."""
    result = {}
    for name, settings in DOMAINS.items():
        found = sorted((ROOT / "tests" / "golden" / "domains").glob(f"{name}.csv*"))
        result[name] = child("domain", str(found[0]), *settings) if found else {"failed": "no table"}
    return result


def write(results: dict, text: str) -> None:
    """Keep the results, and the page about them."""
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text(text)


def main() -> None:
    """Run everything; with --quick on a small problem, printing only."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small problem, no files written")
    parser.add_argument("--kernels", action="store_true", help="only the kernels anew, in the files that are there")
    asked = parser.parse_args()
    size = "quick" if asked.quick else "full"
    environment()
    sys.path.insert(0, str(HERE))
    import report

    if asked.kernels:
        results = json.loads((HERE / "results.json").read_text()) | {"kernels": script("kernels.py")}
        return write(results, report.markdown(results))

    source = source_digest()
    contenders = {name: child("contender", name, size) for name in NAMES}
    results = {
        "size": size,
        "source_sha256": source,
        "largest_difference": check_agreement(contenders),
        **sure("setting", size),
        "machine": machine(),
        "contenders": contenders,
        "kernel_work": sure("kernel_work", size),
        "domains": domains(),
        "kernels": script("kernels.py", *(["--quick"] if size == "quick" else [])),
        "million": {} if size == "quick" else {name: child("million", near) for name, near in MILLION.items()},
        "startup": {} if size == "quick" else script("startup.py"),
    }
    if source_digest() != source:
        raise SystemExit(
            "source: changed while it was being measured, so the numbers do not belong together; run again"
        )
    text = report.markdown(results)
    if size == "full":
        write(results, text)
    print("\n" + text)
    failures = [
        f"{n}: {r['failed']}"
        for n, r in (contenders | results["domains"] | results["million"]).items()
        if "failed" in r
    ]
    sys.exit("\n".join(failures) if failures else 0)


if __name__ == "__main__":
    main()
