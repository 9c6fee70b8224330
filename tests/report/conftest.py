"""Reports to look at, and a real browser to look at them with."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

import pytest
from report_cases import MODELS, OPTIONS, bare_run, simulator_run

from tailrank import read_mdp, save, solve
from tailrank.report.document import save as write_report
from tailrank.report.sources import of_sources
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run

FLAGS = [
    f"--{flag}"
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
    )
]


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Folders of three short runs that differ in their seed."""
    top = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        run(
            RunConfig.of("risky-lock", iterations=12, tau=0.1, seed=seed, settings={"horizon": 4, "n_states": 12}),
            top / f"r{seed}",
        )
    return [top / f"r{seed}" for seed in range(3)]


@pytest.fixture(scope="session")
def subjects(tmp_path_factory, runs):
    """A subject of every kind, by name."""
    top = tmp_path_factory.mktemp("subjects")
    counter = read_mdp(MODELS / "counter_example.json").mdp
    save(solve(counter, tau=0.5), top / "a.policy")
    save(solve(counter, tau=0.5, criterion="mean"), top / "mean.policy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(solve(counter, tau=0.5, criterion="chow"), top / "chow.policy")

    def subject(*sources, tau=None, **options):
        return of_sources([str(s) for s in sources], lambda source: read_mdp(source, **options), tau=tau)

    return {
        "betting": subject(MODELS / "betting.json", tau=0.1),
        "cliff": subject(MODELS / "cliff.json", tau=0.05),
        "machine": subject(MODELS / "machine.csv", tau=0.1, **OPTIONS["machine"]),
        "lake": subject("FrozenLake-v1", tau=0.5, horizon=20),
        "lock": subject("risky-lock"),
        "policy": subject(top / "a.policy", MODELS / "counter_example.json"),
        "markov": subject(top / "mean.policy", MODELS / "counter_example.json"),
        "chow": subject(top / "chow.policy", MODELS / "counter_example.json"),
        "runs": subject(*runs),
        "run": subject(runs[0]),
        "simulator": subject(simulator_run(top / "simulator")),
        "bare": subject(bare_run(top / "bare")),
    }


@pytest.fixture(scope="session")
def files(tmp_path_factory, subjects):
    """The file of every subject, by name."""
    top = tmp_path_factory.mktemp("files")
    for name, subject in subjects.items():
        write_report(subject, top / f"{name}.html")
    return {name: top / f"{name}.html" for name in subjects}


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; without one the test is skipped, except in CI."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        reason = "no chromium here: scripts/chromium.sh installs it"
        if os.environ.get("CI") or os.environ.get("TAILRANK_CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # milliseconds, for what happens at once on a machine with nothing else to do
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Open an address in a fresh page that notes every error and every request."""
    contexts = []

    def open_page(address, width=1200, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.errors, page.requests = [], []
        page.on("console", lambda message: page.errors.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(address if "://" in str(address) else Path(address).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
