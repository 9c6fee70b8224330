"""docs/benchmarks.md from the results: standard library only."""

from __future__ import annotations

HEAD = """# Benchmarks

Written by `make bench` (`python benchmarks/run.py`), which installs the peers into an environment of its own,
measures everything in one run on the machine below, and checks that all contenders agree. The numbers are in
`benchmarks/results.json`.
"""

PROBLEM = """## The same problem for everyone

A random MDP with {S} states, {A} actions, {K} outcomes a pair (whole-number rewards 0..8) and {H} steps.
Wanted is the least expected shortfall E (c - R)^+ for all {C} budgets c, hence the best CVaR at tau = {tau}.
Packages for MDPs solve the budget-augmented problem, {augmented:,} states (s, c) with {entries:,}
transition probabilities, which is what their user would build. All curves agree to {gap:.1e}; the best CVaR
is {cvar:.6f}.
"""

FOOT = """Medians; every contender runs in a fresh process with the threads it uses by default ({cores} cores;
"cores" is processor time over time while solving). Warm-up on small problems, compilation included, is in no
other column. Memory is the peak during build and solve above what was resident before. Ratios are to
`tailrank.solve`, build and solve together.
"""

WORK = """- the kernel does {gflop} GFLOP (a product and a sum for each outcome and budget that matters) at
  {rate} GFLOP/s, {share:.0%} of the matrix product; reading and writing tables and rows once would need
  {flow} GB/s, {stream:.0%} of the triad."""

KINDS = {"peer": "fastest package on the augmented problem", "by hand": "fastest by hand"}

DOMAINS = """## Published domains

`tailrank.solve(mdp, tau=0.1, tolerance="1%")`, with the table read and the code compiled before.
"""


def markdown(results: dict) -> str:
    """The whole page."""
    parts = [HEAD, machine(results), problem(results), summary(results), domains(results)]
    parts += [kernels(results), growth(results), million(results), startup(results)]
    return "\n".join(part for part in parts if part)


def machine(results: dict) -> str:
    """Processor and versions."""
    m = results["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"Machine: {m['cpu']}, {m['cores']} cores; matrix product {figure(m['dgemm_gflops'])} GFLOP/s "
        f"(one core {figure(m['dgemm_gflops_one_core'])}), triad {figure(m['triad_gbytes'])} GB/s "
        f"(one core {figure(m['triad_gbytes_one_core'])}).\nVersions: {packages}.\n"
    )


def problem(results: dict) -> str:
    """The problem, the table and its notes."""
    size, rows = results["problem"], results["contenders"]
    states = size["S"] * size["C"]
    cvar = next(r["cvar"] for r in rows.values() if "cvar" in r)
    counts = {"augmented": states, "entries": states * size["A"] * size["K"]}
    head = PROBLEM.format(**size, **counts, gap=results["largest_difference"], cvar=cvar)
    columns = ("", "build s", "solve s", "cores", "memory MB", "warm-up s", "time ratio", "memory ratio")
    base = rows["tailrank"]
    least = max(base.get("peak_bytes", 0), 1)
    body, notes = [], []
    for row in rows.values():
        if "failed" in row:
            continue
        mark = ""
        if row["note"]:
            notes.append(f"{len(notes) + 1}. {row['label'].split(',')[0]}: {row['note']}.")
            mark = f" ({len(notes)})"
        cells = [row["label"] + mark]
        cells += [figure(row[k]) for k in ("build_seconds", "solve_seconds", "busy_cores")]
        cells += [figure(row["peak_bytes"] / 1e6), figure(row["warm_up_seconds"])]
        if "failed" in base:
            cells += ["", ""]
        else:
            cells += [figure(seconds(row) / seconds(base)), figure(row["peak_bytes"] / least)]
        body.append(cells)
    foot = FOOT.format(cores=results["machine"]["cores"])
    return "\n".join([head, table(columns, body), foot, *notes, ""])


def summary(results: dict) -> str:
    """Ratios to the nearest rivals, and how close the kernel comes to the machine's limits."""
    rows, work, m = results["contenders"], results["kernel_work"], results["machine"]
    base, lines = rows["tailrank"], []
    if "failed" not in base:
        for kind, text in KINDS.items():
            rivals = [r for r in rows.values() if r.get("kind") == kind]
            if rivals:
                best = min(rivals, key=seconds)
                lean = min(rivals, key=lambda r: r["peak_bytes"])
                lines.append(
                    f"- {text}: {best['label']}, {figure(seconds(best) / seconds(base))} times the time of "
                    f"`tailrank.solve`; least memory: {lean['label']}, "
                    f"{figure(lean['peak_bytes'] / max(base['peak_bytes'], 1))} times its memory."
                )
    kernel = rows["tailrank_kernel"]
    if "failed" not in kernel:
        rate, flow = (work[k] / kernel["solve_seconds"] / 1e9 for k in ("flops", "bytes"))
        peak, stream = (max(m[k], m[f"{k}_one_core"]) for k in ("dgemm_gflops", "triad_gbytes"))
        shares = {"share": rate / peak, "stream": flow / stream}
        lines.append(WORK.format(gflop=figure(work["flops"] / 1e9), rate=figure(rate), flow=figure(flow), **shares))
    return "\n".join([*lines, ""])


def domains(results: dict) -> str:
    """The published domains."""
    columns = ("", "states", "rows", "horizon", "discount", "solve s", "status", "CVaR", "lower", "upper")
    body = []
    for name, row in results["domains"].items():
        if "failed" not in row:
            cells = [f"{row[k]:,}" for k in ("states", "rows", "horizon")] + [f"{row['discount']:g}"]
            cells += [
                figure(row["solve_seconds"]),
                row["status"] + (" (limit reached)" if row["notes"] else ""),
            ]
            body.append([name, *cells, *(f"{row[k]:.6g}" for k in ("cvar", "lower", "upper"))])
    if not body:
        return ""
    return "\n".join([DOMAINS, table(columns, body)])


KERNELS = """## Kernels

Each at a large size and at a very small one. *Limit*: what one product and one sum per number cost, as a share of the
matrix product of this machine ({gflops} GFLOP/s), and what must be read and written at least once, as a share of its
triad ({gbytes} GB/s), both measured in the same process. A kernel can come near one of them only: work per byte
decides which. *Anywhere* reads tables that lie anywhere in memory and fit in no cache, so that every outcome must read
its own. NumPy is what one would write instead, on the same problem; times are the fastest of a few calls. *Resident*
is the most memory that the whole process held during a call, with Python, all packages and the problem.
"""

GROWTH = """## Growth

Exponent of the time in one size, by a line through the logarithms of four times, and in brackets the exponent that the
arithmetic predicts. Smaller ones are fixed costs that wear off; budgets grow with the horizon, so the inductions grow
with its square.
"""


def kernels(results: dict) -> str:
    """Time, memory, share of the limits, and plain NumPy."""
    found = results["kernels"]
    head = (
        "",
        "size",
        "seconds",
        "cores",
        "resident MB",
        "of the product",
        "of the triad",
        "NumPy",
        "smallest",
        "NumPy",
    )
    body = []
    for name, row in found["kernels"].items():
        size = ", ".join(f"{k} {v:,}" for k, v in row["size"].items() if k != "near")
        small, plain = row.get("small"), row.get("plain_seconds")
        cells = [name, size, figure(row["seconds"]), figure(row["cores"]), figure(row["resident_bytes"] / 1e6)]
        for rate, limit in (("gflops", found["gflops"]), ("gbytes", found["gbytes"])):
            cells.append(f"{row[rate] / limit:.0%}" if row[rate] else "")
        cells.append("" if plain is None else f"{figure(plain / row['seconds'])}x" + named(row))
        cells += (
            ["", ""]
            if small is None
            else [
                f"{figure(1e6 * small['seconds'])} us",
                f"{figure(small['plain_seconds'] / small['seconds'])}x",
            ]
        )
        body.append(cells)
    lines = [f"- {name}: {figure(value)} s." for name, value in found["jobs"].items()]
    text = KERNELS.format(gflops=figure(found["gflops"]), gbytes=figure(found["gbytes"]))
    return "\n".join([text, table(head, body), *lines, ""])


def named(row: dict) -> str:
    """What the plain version is, unless it is NumPy."""
    return "" if row["plain_name"] == "NumPy" else f" ({row['plain_name']})"


def growth(results: dict) -> str:
    """Exponents, measured and predicted."""
    axes = ("S", "N", "A", "K", "d", "n", "H", "top", "C")
    body = []
    for name, row in results["kernels"]["kernels"].items():
        if row["growth"]:
            found = (row["growth"].get(axis) for axis in axes)
            body.append([name, *(f"{g['exponent']:.2f} ({g['predicted']:g})" if g else "" for g in found)])
    return "\n".join([GROWTH, table(("", *axes), body)]) if body else ""


def million(results: dict) -> str:
    """The largest problem."""
    body = []
    for name, row in results["million"].items():
        if "failed" not in row:
            cells = [figure(row[k]) for k in ("seconds", "law_seconds", "cores")] + [figure(row["mdp_bytes"] / 2**30)]
            cells += [figure(row["peak_bytes"] / 2**30), row["status"], f"{row['cvar']:.6f}"]
            body.append([name, *cells, f"{row['mean_policy_cvar']:.6f}", f"{row['difference']:.1e}"])
    if not body:
        return ""
    text = """## A million states

4 actions, 5 outcomes a pair, 20 steps, rewards 0..10 (201 budgets), any start: `tailrank.solve(mdp, 0.1, memory="16GB",
seconds=600)`, and after it the law of the policy's return, which is found when it is first asked for. The difference is
between the CVaR of the law, pushed forward, and the value of the induction, worked backward.
"""
    columns = (
        "next states",
        "seconds",
        "law, seconds",
        "cores",
        "GB of the MDP",
        "GB at most",
        "status",
        "CVaR",
        "risk-neutral",
        "difference",
    )
    return "\n".join([text, table(columns, body)])


def startup(results: dict) -> str:
    """Commands from nothing."""
    body = [
        [name, figure(row["median"]), figure(row["least"]), figure(row["over_numpy"])]
        for name, row in results["startup"].get("processor_seconds", {}).items()
    ]
    text = """## Start-up

Processor seconds of a new process, `benchmarks/startup.py`; everything is installed and compiled, but in the last row.
"""
    return "\n".join([text, table(("", "median", "least", "times `import numpy`"), body)]) if body else ""


def seconds(row: dict) -> float:
    """Build and solve."""
    return row["build_seconds"] + row["solve_seconds"]


def figure(x: float | None) -> str:
    """Three significant digits, without an exponent."""
    if x is None or x < 0.001:
        return "" if x is None else "< 0.001"
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:#.3g}".rstrip(".")


def table(columns: tuple[str, ...], body: list[list[str]]) -> str:
    """A markdown table, first column left, the others right."""
    lines = [columns, ("---", *["---:"] * (len(columns) - 1)), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
