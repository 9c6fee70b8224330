// The sections of the page: what is in them, in words, and why they may be empty.

import { byId, html, missing } from "./dom.js";
import { percent } from "./format.js";
import { actionLegend, drawHeatmap, heatmapTable, usedActions } from "./heatmap.js";
import { drawSeries, explanation, has, legend, SERIES, seriesTable } from "./learning.js";
import { mountMaps } from "./maps.js";
import { mountPlayed } from "./played.js";
import { mountPlayer } from "./player.js";
import { figure } from "./plot.js";
import { drawReturns, returnsTable } from "./returns.js";
import { drawEfficient, efficientTable, sentence } from "./efficient.js";
import { drawFrontier, frontierTable } from "./frontier.js";
import { drawObjective, objectiveTable } from "./objective.js";
import { mountWatched } from "./watched.js";

/** A section's body, emptied. */
function body(id) {
  const place = byId(id).querySelector(".body");
  place.replaceChildren();
  return place;
}

export function buildReturns(page) {
  const place = body("returns");
  const view = page.view();
  if (!view.laws.length) return place.append(missing(view.policy.absent.law));
  const words = () => {
    const { law, tau } = page.view();
    const drawn =
      tau === 1
        ? "All episodes count here, so that CVaR is the mean."
        : `The worst ${percent(tau)} are drawn in orange; their mean is the CVaR, the best of them the VaR.`;
    if (!law) return drawn;
    if (law.method === "sample") return `${drawn} Returns of ${law.episodes} evaluation episodes.`;
    const rounded = law.method === "moments" ? " The law is rounded to a grid; bounds hold all the same." : "";
    return (
      drawn + rounded + (law.merged ? ` ${law.atoms} different returns, drawn in groups; the numbers are not.` : "")
    );
  };
  const update = figure(place, {
    title: "Distribution of returns",
    caption: words,
    draw: (picture, width) => drawReturns(picture, width, page.view()),
    rows: () => returnsTable(page.view()),
  });
  page.parts.push({ of: ["level", "policy"], draw: update });
  if (view.problem && !view.neutral) place.append(missing(view.problem.absent.neutral));
  return null;
}

const BUDGETS =
  "Aim to earn c, and let all that an episode falls short of it cost 1/tau: " +
  "the top of the upper line is the best CVaR of any policy.";
const FRONTIER =
  "Each dot is the best policy for some level, the ring the best one at this level. " +
  "Further right is safer, further up is better on average.";

export function buildTradeoff(page) {
  const place = body("tradeoff");
  const { problem } = page.view();
  if (!problem) return place.append(missing("There is no finite MDP to solve, so the best policies are not known."));
  const add = (title, words, draw, rows) => {
    const drawn = figure(place, {
      title,
      caption: () => words,
      draw: (picture, width) => draw(picture, width, page.view()),
      rows: () => rows(page.view()),
    });
    page.parts.push({ of: ["level", "policy"], draw: drawn });
  };
  const budgets = problem.exact ? BUDGETS : `${BUDGETS} Here it is an upper bound.`;
  add("Value of every budget c", budgets, drawObjective, objectiveTable);
  if (problem.best.length) add("Mean against CVaR", FRONTIER, drawFrontier, frontierTable);
  else place.append(missing("Other policies were not evaluated, so there is no frontier to draw."));
  const { efficient } = problem.raw;
  if (!efficient) return null;
  const drawn = figure(place, {
    title: "What safety costs",
    caption: () => sentence(efficient, page.store.policy),
    draw: (picture, width) => drawEfficient(picture, width, efficient, page.store.policy, page.choose),
    rows: () => efficientTable(efficient),
  });
  page.parts.push({ of: ["policy"], draw: drawn });
  return null;
}

/** The curves; redrawn as they are while a run goes on, built anew when there are others to draw. */
export function buildLearning(page) {
  const { learning } = page.data();
  byId("learning").hidden = !learning;
  if (!learning) return;
  const place = body("learning");
  place.dataset.shape = shape(learning);
  const shown = SERIES.filter((series) => has(learning, series.name));
  if (!shown.length) {
    place.append(missing("No iteration has been recorded yet."));
    return;
  }
  place.append(html("p", { class: "caption" }, explanation(learning)), legend(learning) || "");
  const grid = html("div", { class: "pair" });
  place.append(grid);
  for (const series of shown) {
    const update = figure(grid, {
      title: series.title,
      caption: () => `${series.what}.`,
      draw: (picture, width) => drawSeries(picture, width, page.data().learning, series),
      rows: () => seriesTable(page.data().learning, series),
    });
    page.parts.push({ of: ["policy", "learning"], draw: update });
  }
  const left = SERIES.filter((series) => !shown.includes(series) && !series.optional).map((series) => series.title);
  if (left.length) place.append(missing(`Not in the rows of these runs: ${left.join(", ")}.`));
}

function shape(learning) {
  return JSON.stringify([
    learning.groups.map((group) => [group.name, group.seeds]),
    SERIES.map((series) => has(learning, series.name)),
    explanation(learning),
  ]);
}

/** New rows of the same runs. */
export function updateLearning(page) {
  const { learning } = page.data();
  if (!learning || shape(learning) !== byId("learning").querySelector(".body").dataset.shape) {
    page.parts.splice(0, page.parts.length, ...page.parts.filter((part) => !part.of.includes("learning")));
    buildLearning(page);
  }
  for (const part of page.parts) if (part.of.includes("learning")) part.draw();
}

const ACROSS = {
  budget: "Each row is a state, across is the budget still to earn, each colour is an action.",
  level: "Each row is a state, across is the confidence level, each colour is an action.",
  step: "This policy keeps no budget: each row is a state, across is the step, each colour is an action.",
};

export function buildActions(page) {
  const place = body("actions");
  const [policy, { store }] = [page.policy(), page];
  const { table, episodes } = policy.raw;
  if (!table) {
    if (policy.raw.maps) mountMaps(page, place, policy);
    else place.append(missing(policy.absent.maps || policy.absent.table));
    return policy.raw.watched && mountWatched(page, place, policy);
  }
  const range = html("input", {
    type: "range",
    id: "step",
    min: 0,
    max: table.steps.length - 1,
    step: 1,
    oninput: () => store.set({ step: Number(range.value) }),
  });
  const words = html("output", { for: "step" });
  const timed = table.axis !== "step" && table.steps.length > 1;
  const slider = timed
    ? html("div", { class: "controls" }, html("label", { for: "step" }, "Step ", words), range)
    : null;
  const some =
    table.states.length < table.all_states
      ? ` Shown are ${table.states.length} of ${table.all_states} states, those that episodes meet most.`
      : "";
  const ring = episodes && table.axis !== "level" ? " The ring is where the episode below is at this step." : "";
  const update = figure(place, {
    title: table.axis === "step" ? "Action by state and step" : `Action by state and ${table.axis}`,
    caption: () => ACROSS[table.axis] + some + ring,
    controls: html("div", {}, actionLegend(policy, usedActions(policy)), slider),
    draw: (picture, width) => drawHeatmap(picture, width, policy, store.step, ring ? whereabouts(page) : null),
    rows: () => heatmapTable(policy, store.step),
  });
  const show = () => {
    range.value = store.step;
    range.setAttribute("aria-valuetext", `step ${store.step}`);
    words.textContent = `${store.step} of ${table.horizon}`;
    update();
  };
  page.parts.push({ of: ["step", "policy", "choice", "t", "level"], draw: show });
  return null;
}

/** Where the episode of the player is at the step that is drawn: {state, memory}, or null after its end. */
function whereabouts(page) {
  const episode = page.episode();
  const marked = page.policy().raw.table.axis === "step" ? page.store.t : page.store.step;
  if (marked >= episode.states.length) return null;
  return { state: episode.states[marked], memory: episode.memory ? episode.memory[marked] : marked };
}

export function buildEpisodes(page) {
  const place = body("episodes");
  const policy = page.policy();
  if (!policy.raw.episodes && policy.raw.played) return mountPlayed(page, place, policy);
  if (!policy.raw.episodes) return place.append(missing(policy.absent.episodes));
  const show = mountPlayer(place, page);
  page.parts.push({ of: ["t", "choice", "policy", "level"], draw: show });
  return null;
}
