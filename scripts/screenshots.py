"""Draw the pictures of docs/report.md: `python scripts/screenshots.py` (needs chromium, see scripts/chromium.sh)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tailrank.envs import read_mdp
from tailrank.report.document import save
from tailrank.report.sources import of_sources
from tailrank.runs.config import RunConfig
from tailrank.runs.run import run

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


def main() -> None:
    """Write docs/img/report-*.png."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        top = Path(name)
        for seed in range(5):
            run(RunConfig.of("risky-lock", iterations=60, seed=seed, settings={"horizon": 6}), top / f"seed-{seed}")
        models = ROOT / "examples" / "models"
        for kind, sources, tau in (
            ("betting", [models / "betting.json"], 0.1),
            ("cliff", [models / "cliff.json"], 0.05),
            ("runs", sorted(top.glob("seed-*")), None),
        ):
            save(of_sources([str(s) for s in sources], read_mdp, tau=tau), top / f"{kind}.html")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)

        def visit(kind: str, width: int, height: int, scheme: str = "light") -> Page:
            page = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1.5
            ).new_page()
            page.goto((top / f"{kind}.html").as_uri())
            page.wait_for_timeout(300)
            return page

        _shot(visit("betting", 1000, 1280), "first")
        _part(visit("betting", 1000, 1600), "actions", 4)
        _part(visit("cliff", 1000, 1600), "episodes", 7)
        _part(visit("runs", 1000, 1600, "dark"), "learning", 0)
        _shot(visit("runs", 360, 760, "dark"), "phone")
        browser.close()


def _part(page: Page, part: str, steps: int) -> None:
    for _ in range(steps):
        page.get_by_role("button", name="Next").click()
    page.evaluate("document.getElementById('bar').style.position = 'static'")
    page.wait_for_timeout(200)
    _shot(page, part, part)


def _shot(page: Page, name: str, part: str | None = None) -> None:
    path = ROOT / "docs" / "img" / f"report-{name}.png"
    if part:
        page.locator(f"#{part}").screenshot(path=path)
    else:
        page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(96).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
