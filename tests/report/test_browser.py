"""The page in a real browser: its numbers are Python's, at every position of the slider; it asks for nothing."""

from __future__ import annotations

import base64
from functools import cache

import numpy as np
import pytest
from map_cases import Formula, beside_of
from playwright.sync_api import expect
from report_cases import HOSTILE, hostile_mdp

from tailrank import ReturnLaw, report, solve
from tailrank.planning.exact.return_law import return_law
from tailrank.report._film import png
from tailrank.report.document import LIMIT
from tailrank.report.document import save as write_report
from tailrank.report.subject import Shown, Subject

KINDS = (
    "betting",
    "cliff",
    "machine",
    "lake",
    "lock",
    "policy",
    "markov",
    "chow",
    "runs",
    "run",
    "simulator",
    "bare",
)
NUMBERS = """() => Object.fromEntries([...document.querySelectorAll('#summary [data-name]')]
  .map((node) => [node.dataset.name, Number(node.dataset.exact)]))"""


def law_of(shown):
    return shown.evaluation.law if shown.evaluation is not None else ReturnLaw.of(shown.returns)


def press(page, key, times):
    """Move the slider by keyboard alone."""
    page.locator("#tau").focus()
    for _ in range(times):
        page.keyboard.press(key)


@pytest.mark.parametrize("kind", KINDS)
def test_opens_from_a_file_without_errors_or_requests(files, visit, kind):
    assert files[kind].stat().st_size < LIMIT
    page = visit(files[kind])
    assert page.locator("h1").inner_text()
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    press(page, "ArrowRight", 2)
    for width in (1200, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            page.evaluate("Math.max(...[...document.querySelectorAll('.picture')].map((x) => x.clientWidth))") <= width
        )
    assert page.errors == []
    assert page.requests == [files[kind].as_uri()]


@cache
def neutral_law(problem):
    return problem.neutral_law()


def agree(found, tau, subject):
    """The numbers of the page are Python's."""
    shown, problem = subject.policies[0], (subject.problems or (None,))[0]
    law = law_of(shown)
    expected = {
        "lead-cvar": law.cvar(tau),
        "mine-cvar": law.cvar(tau),
        "mine-var": law.var(tau),
        "mine-mean": law.mean,
    }
    if problem:
        best, neutral = problem.plan.frontier().cvar(tau), neutral_law(problem)
        exact = problem.plan.status == "exact"
        expected["best-cvar"] = best if exact else min(best, problem.plan.risk_neutral.mean)
        expected["neutral-cvar"], expected["neutral-var"] = neutral.law.cvar(tau), neutral.law.var(tau)
        assert found["best-cvar"] >= max(found["mine-cvar"], found["neutral-cvar"]) - 1e-9
    if "mine-low" in found:
        expected["mine-low"] = shown.evaluation.cvar(tau)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize("kind", ["betting", "cliff", "machine", "lock", "runs", "simulator"])
def test_every_position_of_the_slider_has_pythons_numbers(subjects, files, visit, kind):
    subject, page = subjects[kind], visit(files[kind])
    found = page.evaluate(f"""() => {{
      const slider = document.getElementById('tau');
      return Array.from({{ length: Number(slider.max) + 1 }}, (_, k) => {{
        slider.value = k;
        slider.dispatchEvent(new Event('input'));
        return ({NUMBERS})();
      }});
    }}""")
    assert len(found) == len(subject.levels) > 120
    for tau, numbers in zip(subject.levels, found):
        agree(numbers, tau, subject)
    assert page.errors == []


def test_the_keyboard_moves_the_numbers(subjects, files, visit):
    subject, page = subjects["betting"], visit(files["betting"])
    k = subject.levels.index(0.1)
    for key, times, step in (("ArrowRight", 3, 1), ("ArrowLeft", 5, -1), ("Home", 1, -k), ("End", 1, 1000)):
        press(page, key, times)
        k = min(max(k + step * times, 0), len(subject.levels) - 1)
        tau = subject.levels[k]
        agree(page.evaluate(NUMBERS), tau, subject)
        assert page.locator("#tau").get_attribute("aria-valuetext").endswith(f", tau {tau:g}")
    assert "all episodes" in page.locator("#tau-words").inner_text()


def test_the_first_screen_says_it_in_words(files, visit):
    page = visit(files["betting"])
    assert page.locator("#lead").inner_text() == (
        "In its worst 10% of episodes this policy earns 1.51 on average; the risk-neutral policy earns \u22125.00."
    )
    press(page, "ArrowRight", 1)
    assert "In its worst 10.5% of episodes this policy earns 1.5" in page.locator("#lead").inner_text()
    assert page.locator("#lead").get_attribute("aria-live") == "polite"
    page.keyboard.press("End")
    assert page.locator("#lead").inner_text().startswith("Over all episodes this policy earns 11.04 on average")


def test_the_slider_moves_every_chart(files, visit):
    page = visit(files["betting"])
    drawn = "[...document.querySelectorAll('#returns .picture, #tradeoff .picture')].map((svg) => svg.outerHTML)"
    page.wait_for_function(f"{drawn}.every((text) => text.length > 500)")
    before = page.evaluate(drawn)
    assert len(before) == 4  # the last one, what safety costs, is at the level of the plan
    press(page, "End", 1)
    press(page, "ArrowLeft", 1)
    page.wait_for_function(f"(before) => {drawn}.slice(0, 3).every((text, i) => text !== before[i])", arg=before)
    picture = page.locator("#returns .picture")
    assert "Best policy for the worst 99% of episodes" in picture.inner_html()
    assert picture.get_attribute("aria-label").startswith("Distribution of returns. This policy: CVaR 10.")


def test_a_spread_law_is_not_flat_beside_a_sure_one(tmp_path, visit):
    rows = [(0, 0, 0, 1.0, 40), *((0, 1, 0, 0.01, reward) for reward in range(100))]
    path = tmp_path / "sure.html"
    solve(rows, tau=0.1, horizon=1).report(path)
    page = visit(path)
    heights = (
        "[...document.querySelectorAll('#returns .picture rect.neutral')].map((bar) => +bar.getAttribute('height'))"
    )
    page.wait_for_function(f"{heights}.length > 0")
    assert max(page.evaluate(heights)) > 60  # of 100; on the scale of the sure return it would be 1 to 4


def test_the_table_of_a_chart_says_what_the_chart_shows(subjects, files, visit):
    page = visit(files["betting"])
    page.locator("#returns summary").click()
    page.locator("#returns tbody tr").first.wait_for()
    rows = [row.replace("\u2212", "-").split("\t") for row in page.locator("#returns tbody tr").all_inner_texts()]
    law, total = law_of(subjects["betting"].policies[0]), 0.0
    for where, share, _ in rows:
        low, high = (float(x) for x in where.split(" to "))
        p = law.probs[(law.values > low) & (law.values <= high)].sum()
        total += p
        if p > 1e-4:
            assert float(share.rstrip("%")) == pytest.approx(100 * p, rel=6e-3)
    assert total == pytest.approx(1)


def test_the_player_steps_through_the_worst_episode(subjects, files, visit):
    page = visit(files["cliff"])
    said, kept = page.locator("#said"), subjects["cliff"].data()["policies"][0]["episodes"]["kept"]
    page.get_by_label("the worst", exact=True).check()
    worst, best = kept[0], kept[-1]
    for t in range(3):
        expect(said).to_contain_text(f"Step {t} of 60: state {worst['states'][t]}, budget left")
        page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Last").click()
    expect(said).to_contain_text(f"has earned {worst['return']:g}".replace("-", "\u2212"))
    page.get_by_label("the best", exact=True).check()
    expect(said).to_contain_text("Step 0")
    page.locator("#t").focus()
    page.keyboard.press("End")
    expect(said).to_contain_text(f"has earned {best['return']:g}".replace("-", "\u2212"))


def test_playing_ends_by_itself(files, visit):
    page = visit(files["policy"])
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#said")).to_contain_text("After 2 steps")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_the_heat_map_is_the_policy(subjects, files, visit):
    page, shown = visit(files["betting"]), subjects["betting"].policies[0]
    page.locator("#step").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.locator("#actions summary").click()
    expect(page.locator("#actions caption")).to_contain_text("at step 4")
    rows = [row.split("\t") for row in page.locator("#actions table tbody tr").all_inner_texts()]
    assert len(rows) > 30
    grid = shown.policy.grid
    for state, where, action in rows:
        for end in where.replace("\u2212", "-").split(" to "):
            index = round((float(end) - float(sum(grid.origin[4:]))) / float(grid.unit))
            played = shown.policy.act(4, np.array([int(state)]), np.array([index]))
            assert int(played[0]) == int(action)


def test_another_run_can_be_chosen(subjects, files, visit):
    page = visit(files["runs"])
    page.locator("#policy").select_option("2")
    tau = subjects["runs"].tau
    assert page.evaluate(NUMBERS)["mine-cvar"] == pytest.approx(
        law_of(subjects["runs"].policies[2]).cvar(tau), abs=1e-9
    )
    assert page.errors == []


def test_what_is_missing_is_said_in_a_line(files, visit):
    page = visit(files["simulator"])
    text = page.locator("main").inner_text()
    for words in (
        "no finite MDP to solve",
        "Not in the rows of these runs: Regret",
        "no list of states",
        "did not converge in 1 of 30",
        "estimates from 3000 episodes",
        "Misspecified: too small.",
        "(with 95% confidence 35.00 to 38.00)",
        "Bands of CVaR also hold the bounds of each evaluation.",
    ):
        assert words in text
    assert page.locator("#learning .band").get_attribute("d").count("L") == 2 * 10 - 1
    press(page, "ArrowRight", 1)
    assert "(give or take 0." in page.locator("#lead").inner_text()
    text = visit(files["bare"]).locator("main").inner_text()
    assert "The run (stopped) has not saved a policy yet." in text
    assert "No iteration has been recorded yet." in text


def test_maps_and_pictures_of_a_policy_on_observations(tmp_path, visit, monkeypatch):
    picture = np.zeros((2, 3, 3), dtype=np.uint8)
    strip = {"name": "worst", "return": -4.0, "at": [0, 5], "size": [3, 2]}
    strip |= {"pictures": [base64.b64encode(png(picture)).decode()] * 2}
    monkeypatch.setattr("tailrank.report.subject.film_strips", lambda *_: [strip])
    returns = np.linspace(-4, 4, 50)
    shown = Shown("p", 0.1, Formula(3, (2, 0)), returns=returns, beside=beside_of(3), actions=("stay", "go", HOSTILE))
    write_report(Subject("s", "about", 0.1, (shown,)), tmp_path / "r.html")
    page = visit(tmp_path / "r.html")
    drawn = page.locator("#actions figure").nth(1)
    expect(drawn).to_contain_text("Shortfall that the model expects")
    kinds = "() => [...document.querySelectorAll('#actions .tile')].map((tile) => tile.getAttribute('class')).join()"
    before = page.evaluate(kinds)
    for control in ("map-budget", "map-slice", "map-step"):
        page.locator(f"#{control}").focus()
        page.keyboard.press("ArrowRight")
        after = page.evaluate(kinds)
        assert after != before, control
        before = after
    assert page.evaluate("[...document.images].map((image) => image.naturalWidth)") == [3, 3]
    assert "observation[2]" in page.locator("#episodes").inner_text()
    page.set_viewport_size({"width": 360, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.errors == []


def test_text_from_files_stays_text(tmp_path, visit):
    mdp = hostile_mdp()
    report.write(solve(mdp, tau=0.2), tmp_path / "r.html", mdp=mdp, name=HOSTILE)
    page = visit(tmp_path / "r.html")
    assert page.locator("h1").text_content() == HOSTILE
    expect(page.locator("#said")).to_contain_text(HOSTILE[:30])
    assert page.evaluate("window.harm === undefined && document.images.length === 0")
    assert page.errors == []


def test_nothing_but_the_page_itself_may_run(files, visit):
    page = visit(files["lock"])
    refused, broken = page.evaluate("""async () => {
      const [broken, refused, node] = [[], [], document.createElement('script')];
      addEventListener('securitypolicyviolation', (event) => broken.push(event.effectiveDirective));
      for (const harm of [
        () => node.setAttribute('src', 'https://example.org/x.js'),
        () => document.body.setAttribute('onclick', 'window.harm = 1'),
        () => document.body.insertAdjacentHTML('beforeend', '<b>x</b>'),
      ]) try { harm(); } catch (error) { refused.push(error.name); }
      await fetch('https://example.org/').catch(() => 0);
      for (let waited = 0; waited < 600 && new Set(broken).size < 2; waited += 1) {
        await new Promise((done) => setTimeout(done, 100));
      }
      return [refused, broken];
    }""")
    assert refused == ["TypeError"] * 3
    assert {"connect-src", "require-trusted-types-for"} <= set(broken)
    assert page.requests == [files["lock"].as_uri()]


def test_names_for_everything_that_can_be_used(files, visit):
    page = visit(files["runs"])
    nameless = page.evaluate("""() => [...document.querySelectorAll('input, select, button, [role=img], [role=region]')]
      .filter((node) => !(node.labels && node.labels.length && node.labels[0].textContent.trim())
        && !node.getAttribute('aria-label') && !(node.tagName === 'BUTTON' && node.textContent.trim()))
      .map((node) => node.outerHTML)""")
    assert nameless == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((h) => h.tagName)")[0] == "H1"
    tables = page.evaluate("[...document.querySelectorAll('figure')].filter((f) => !f.querySelector('details')).length")
    assert tables <= 1  # the picture of the way has the episode's table beside it
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(3):
        page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert page.evaluate("document.activeElement.id") == "tau"
    assert outline == "solid"


def test_light_and_dark(files, visit):
    def background(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = visit(files["lock"]), visit(files["lock"], color_scheme="dark")
    assert background(light) == "rgb(252, 252, 250)"
    assert background(dark) == "rgb(20, 23, 27)"
    dark.get_by_role("button", name="Light").click()
    assert background(dark) == "rgb(252, 252, 250)"
    light.get_by_role("button", name="Dark").click()
    assert background(light) == "rgb(20, 23, 27)"


def test_a_point_of_the_frontier_can_be_picked(files, subjects, visit):
    """By mouse and by keyboard: the page then shows its law, its actions and what safety costs there."""
    page, found = visit(files["betting"]), subjects["betting"].frontier
    place = page.locator("#tradeoff")
    expect(place).to_contain_text("No policy earns more there")
    page.locator("#point-3").click()
    point, plan = found.places[3], found.plans[3]
    expect(page.locator("#policy")).to_have_value("3")
    law = return_law(plan.policy, subjects["betting"].policies[0].mdp).law
    assert page.evaluate(NUMBERS)["mine-cvar"] == pytest.approx(law.cvar(0.1), abs=1e-9)
    assert law.cvar(0.1) >= found.points.cvar[point] - 1e-9
    assert law.mean == pytest.approx(found.points.mean[point], abs=1e-9)
    slope = (found.points.mean[point] - found.points.mean[point - 1]) / (
        found.points.cvar[point - 1] - found.points.cvar[point]
    )
    expect(place).to_contain_text(f"costs {slope:.2f} on average")
    expect(place).to_contain_text("One of two plans is drawn at the start")
    expect(page.locator("#actions")).to_contain_text("Action by state and budget")
    page.locator("#point-1").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#policy")).to_have_value("1")
    assert page.errors == []
