// Learning curves: thin lines for runs, a thick one for their mean, a band for its interval.

import { html, svg, table } from "./dom.js";
import { percent, short } from "./format.js";
import { unpack } from "./law.js";
import { path, xAxis, yAxis, yRoom } from "./plot.js";
import { linear, padded } from "./scales.js";

const HEIGHT = 190;
const TOP = 22;

export const SERIES = [
  { name: "cvar", title: "CVaR of the plan", what: "CVaR of the plan after each iteration" },
  { name: "regret", title: "Regret", what: "Sum of what each plan was short of the best CVaR" },
  {
    name: "return",
    title: "Return while learning",
    what: "Mean return of the episodes of each iteration, exploration included",
    optional: true,
  },
  { name: "bonus", title: "Bonus", what: "Mean bonus for what is little known" },
  { name: "log_likelihood", title: "Log likelihood", what: "Log likelihood of the fitted model" },
];

/** The curves of one series as numbers, ready to draw. */
function lines(learning, name) {
  return learning.groups.map((group) => ({
    group,
    runs: group.runs
      .filter((run) => run[name])
      .map((run) => ({ seed: run.seed, x: unpack(run.episodes || run.k), y: unpack(run[name]) })),
    bounds: group.mean && name !== "cvar" ? [] : bounds(group, name),
    mean: group.mean && group.mean[name] && group.mean.episodes ? spread(group.mean, name) : null,
  }));
}

/** The intervals that single runs have of a series. */
function bounds(group, name) {
  const [low, high] = [`${name}_low`, `${name}_high`];
  const found = group.runs.filter((run) => run[low] && run[high]);
  return found.map((run) => ({ x: unpack(run.episodes || run.k), low: unpack(run[low]), high: unpack(run[high]) }));
}

function spread(mean, name) {
  const found = mean[name];
  const bound = (key) => (found[key] ? unpack(found[key]) : null);
  return { x: unpack(mean.episodes), y: unpack(found.mean), low: bound("low"), high: bound("high") };
}

/** Whether any run says anything about a series. */
export function has(learning, name) {
  return lines(learning, name).some((set) => set.runs.length || set.bounds.length);
}

/** The points of a line; plans that were not evaluated have none. */
function known(line) {
  return [...line.x].map((k, i) => [k, line.y[i]]).filter(([, v]) => Number.isFinite(v));
}

function band(x, y, set) {
  const up = [...set.x].map((k, i) => [x(k), y(set.high[i])]);
  const down = [...set.x].map((k, i) => [x(k), y(set.low[i])]).reverse();
  return `${path([...up, ...down].filter(([, b]) => Number.isFinite(b)))}Z`;
}

/** Draw one series. */
export function drawSeries(picture, width, learning, series) {
  const sets = lines(learning, series.name);
  const values = [];
  let last = 1;
  for (const set of sets) {
    for (const line of [...set.runs, ...(set.mean ? [set.mean] : [])]) {
      values.push(...line.y);
      last = Math.max(last, line.x[line.x.length - 1]);
    }
    for (const line of [...set.bounds, ...(set.mean && set.mean.low ? [set.mean] : [])])
      values.push(...line.low, ...line.high);
    for (const bound of set.bounds) last = Math.max(last, bound.x[bound.x.length - 1]);
    if (series.name === "cvar" && set.group.star !== null) values.push(set.group.star);
  }
  const finite = values.filter(Number.isFinite);
  if (!["log_likelihood", "return"].includes(series.name)) finite.push(0);
  const [low, high] = padded(Math.min(...finite), Math.max(...finite), 0.06);
  const left = yRoom([low, high]);
  const x = linear(0, last, left, width - 14);
  const y = linear(low, high, HEIGHT, TOP);
  yAxis(picture, y, left, { to: width - 14 });
  sets.forEach((set, g) => {
    const colour = `group${g % 6}`;
    if (set.mean && set.mean.low) picture.append(svg("path", { class: `band ${colour}`, d: band(x, y, set.mean) }));
    for (const bound of set.bounds) picture.append(svg("path", { class: `band ${colour}`, d: band(x, y, bound) }));
    for (const line of set.runs) {
      const d = path(known(line).map(([k, v]) => [x(k), y(v)]));
      picture.append(
        svg("path", { class: `line ${colour} ${set.mean ? "thin" : ""}`, d }, svg("title", {}, `seed ${line.seed}`)),
      );
    }
    if (set.mean)
      picture.append(svg("path", { class: `line ${colour}`, d: path(known(set.mean).map(([k, v]) => [x(k), y(v)])) }));
  });
  stars(picture, series, sets, x, y);
  xAxis(picture, x, HEIGHT, { label: "episodes played", whole: true });
  const ends = sets.map((set) => {
    const line = set.mean || set.runs[0];
    return line && known(line).length ? `${set.group.name || "run"} ends at ${short(known(line).at(-1)[1], 4)}` : "";
  });
  return { height: HEIGHT + 42, label: `${series.title} over episodes. ${ends.filter(Boolean).join(". ")}.` };
}

/** The best CVaR, where all groups share it. */
function stars(picture, series, sets, x, y) {
  if (series.name !== "cvar") return;
  const best = [...new Set(sets.map((set) => set.group.star))].filter((star) => star !== null);
  if (best.length !== 1) return;
  const [from, to] = x.range;
  const at = y(best[0]);
  picture.append(
    svg("line", { class: "star", x1: from, x2: to, y1: at, y2: at }),
    svg("text", { class: "label best", x: to, y: at - 6, "text-anchor": "end" }, `best possible ${short(best[0], 4)}`),
  );
}

/** Which colour is which group of runs; nothing where there is one group. */
export function legend(learning) {
  if (learning.groups.length < 2) return null;
  const items = learning.groups.map((group, g) =>
    html("li", {}, html("span", { class: `swatch group${g % 6}` }), group.name || `group ${g + 1}`),
  );
  return html("ul", { class: "legend", "aria-label": "Groups of runs" }, ...items);
}

/** What the lines and bands are. */
export function explanation(learning) {
  const { groups, confidence } = learning;
  const any = (name) => groups.some((group) => group.runs.some((run) => run[name]));
  const levels = [...new Set(groups.map((group) => percent(group.tau)))].join(" or ");
  const most = Math.max(...groups.map((group) => group.seeds.length));
  const parts = [];
  if (any("cvar") || any("cvar_low")) {
    parts.push(`CVaR here is at the runs' own level, the worst ${levels}; the slider does not move it.`);
  } else parts.push("The plans were not evaluated while learning.");
  if (most >= 3) {
    parts.push(`Thick lines are means over seeds, bands their ${percent(confidence)} bootstrap intervals.`);
  } else if (most === 2) parts.push("The thick line is the mean of two seeds, too few for an interval.");
  if (any("return_low")) parts.push("Bands of the return are 95% intervals of the mean of an iteration (Student's t).");
  if (any("cvar_low")) parts.push("Bands of CVaR also hold the bounds of each evaluation.");
  if (most === 1 && any("regret")) parts.push("One seed, exact evaluation: there is no interval to show.");
  if (groups.some((group) => group.iterations.some((n) => n > group.common))) {
    parts.push("Means end where the shortest run ends.");
  }
  if (groups.some((group) => group.iterations.some((n) => n > 400))) {
    parts.push("Of long runs, 400 iterations are drawn.");
  }
  return parts.join(" ");
}

/** One series as a table of at most 30 rows. */
export function seriesTable(learning, series) {
  const sets = lines(learning, series.name).flatMap((set) => {
    const named = (line, text) => ({ line, text: [set.group.name, text].filter(Boolean).join(", ") });
    const bounds = set.bounds.flatMap((b) => [
      named({ x: b.x, y: b.low }, "lower bound"),
      named({ x: b.x, y: b.high }, "upper bound"),
    ]);
    return [
      ...set.runs.slice(0, 6).map((run) => named(run, `seed ${run.seed}`)),
      ...bounds.slice(0, 4),
      ...(set.mean ? [named(set.mean, "mean")] : []),
    ];
  });
  const longest = sets.reduce((a, b) => (b.line.x.length > a.line.x.length ? b : a)).line;
  const step = Math.max(1, Math.ceil(longest.x.length / 30));
  const rows = [];
  for (let i = 0; i < longest.x.length; i += step)
    rows.push([short(longest.x[i]), ...sets.map((set) => short(i < set.line.y.length ? set.line.y[i] : NaN, 4))]);
  return table(["Episodes", ...sets.map((set) => set.text)], rows, series.what);
}
