"""The page of a comparison in a real browser: its style is allowed, pictures keep their colours, it asks nothing."""

from __future__ import annotations

import pytest

from made_runs import final, learning, write_run
from tailrank.comparison import compare
from tailrank.comparison.page import caption, page
from tailrank.plots.comparing import figures
from tailrank.plots.inline import inline
from tailrank.plots.style import PALETTE


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    top = tmp_path_factory.mktemp("compared")
    for algorithm, step in (("ela", 0.3), ("ella", 0.1)):
        for seed in range(4):
            curve = [min(0.8, k * step + 0.02 * seed) for k in range(6)]
            folder = top / f"{algorithm}{seed}"
            write_run(folder, learning(curve), final(curve[-1]), seed=seed, algorithm=algorithm)
    found = compare(top)
    drawn = {name: inline(figure, name, caption(found, name)) for name, figure in figures(found).items()}
    path = top / "index.html"
    path.write_text(page(found, drawn), encoding="utf-8")
    return path


def test_opens_without_errors_or_requests(file, visit):
    shown = visit(file)
    assert shown.locator("svg").count() == 5
    for width in (1200, 360):
        shown.set_viewport_size({"width": width, "height": 900})
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.errors == []
    assert shown.requests == [file.as_uri()]


def test_pictures_keep_their_colours(file, visit):
    shown = visit(file)
    red, green, blue = (int(PALETTE[0][i : i + 2], 16) for i in (1, 3, 5))
    strokes = shown.evaluate(
        "[...document.querySelectorAll('svg path')].map((x) => getComputedStyle(x).stroke)",
    )
    assert f"rgb({red}, {green}, {blue})" in strokes
    names = shown.evaluate("[...document.querySelectorAll('svg [id]')].map((x) => x.id)")
    assert len(names) == len(set(names))
    linked = shown.evaluate("[...document.querySelectorAll('svg use')].map((x) => x.getAttribute('href').slice(1))")
    assert set(linked) <= set(names)
    assert all(shown.locator("svg").nth(i).get_attribute("aria-label") for i in range(5))


def test_numbers_stand_in_tables(file, visit):
    shown = visit(file)
    table = shown.locator("table", has_text="Episodes to within 5% of CVaR*").first
    assert table.locator("tbody th").all_inner_texts() == ["ELA", "ELLA"]
    # 0.3 an iteration of four episodes gets to 0.76 in the fourth, 0.1 never does.
    assert "16 (16" in table.locator("tbody tr").nth(0).inner_text()
    assert "> 24" in table.locator("tbody tr").nth(1).inner_text()
