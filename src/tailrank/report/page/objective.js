// The value of every budget: c - V(c) / tau for the best policies and for this one.

import { svg, table } from "./dom.js";
import { fixed, short } from "./format.js";
import { labels, path, xAxis, yAxis, yRoom } from "./plot.js";
import { span } from "./bars.js";
import { linear, padded } from "./scales.js";

const HEIGHT = 250;
const TOP = 46;

/** c - V(c) / tau for the best policies and for this one; its maximum is the CVaR. */
export function drawObjective(picture, width, view) {
  const { tau, problem, law, decimals } = view;
  const curve = problem.curve;
  const best = view.best;
  const [low, high] = span(view.laws);
  // What can be earned in some other way may reach far lower; the picture is of what these policies earn.
  const usual = high - low || 0.2 * (best.value - curve.budget[0]) || 1;
  const from = Math.max(curve.budget[0], Math.min(low, best.value) - 0.1 * usual);
  const tall = Math.max(best.value - from, 0.12 * usual);
  const [bottom, top] = padded(best.value - tall, best.value, 0.12);
  const to = Math.min(lastAbove(curve, tau, bottom), high + 0.05 * usual);
  const left = yRoom([bottom, top]);
  const x = linear(...padded(from, to, 0.02), left, width - 12);
  const y = linear(bottom, top, HEIGHT, TOP);
  yAxis(picture, y, left, { to: width - 12 });
  const points = Array.from({ length: curve.size }, (_, i) => [curve.budget[i], curve.drawn(i, tau)]);
  const mine = law ? objectiveOf(law, tau, from, to) : [];
  const clipped = svg("svg", {
    x: left,
    y: TOP - 14,
    width: width - 12 - left,
    height: HEIGHT - TOP + 14,
    viewBox: `${left} ${TOP - 14} ${width - 12 - left} ${HEIGHT - TOP + 14}`,
  });
  const line = (set, kind) =>
    svg("path", {
      class: `line ${kind}`,
      d: path(
        set.filter(([c]) => c >= from && c <= to).map(([c, v]) => [x(c), y(Math.max(v, bottom - (top - bottom)))]),
      ),
    });
  clipped.append(line(points, "best"), line(mine, "mine"));
  picture.append(clipped);
  const marks = [{ c: best.budget, v: best.value, text: "best", kind: "best" }];
  if (law) marks.push({ c: law.quantile(tau), v: law.cvar(tau), text: "this policy", kind: "mine" });
  const items = [];
  for (const mark of marks) {
    const [at, height] = [x(Math.min(mark.c, to)), Math.min(y(mark.v), HEIGHT)];
    const stem = svg("line", { class: `stem ${mark.kind}`, x1: at, x2: at, y1: height, y2: height });
    picture.append(
      stem,
      svg("circle", { class: `dot ${mark.kind}`, cx: at, cy: height, r: mark.kind === "best" ? 6.5 : 4 }),
    );
    items.push({
      x: at,
      text: `${mark.text} ${fixed(mark.v, decimals)}`,
      kind: mark.kind,
      placed: (top) => stem.setAttribute("y2", top - 9),
    });
  }
  labels(picture, items, { from: left, to: width - 12, y: 14 });
  xAxis(picture, x, HEIGHT, { label: "budget c" });
  return {
    height: HEIGHT + 42,
    label: `Value of every budget at tau ${tau}: the most is ${fixed(best.value, decimals)}, at ${short(best.budget)}.`,
  };
}

/** The largest budget whose objective is still in the picture, and a little more. */
function lastAbove(curve, tau, bottom) {
  let last = curve.size - 1;
  while (last > 1 && curve.drawn(last, tau) < bottom) last--;
  return curve.budget[Math.min(last + 1, curve.size - 1)];
}

/** The objective of a fixed law: its kinks are the values of the law. */
function objectiveOf(law, tau, from, to) {
  const points = [[from, from - law.shortfall(from) / tau]];
  const step = Math.max(1, Math.floor(law.size / 300));
  let below = 0;
  let weighted = 0;
  for (let i = 0; i < law.size; i++) {
    const c = law.values[i];
    if (i % step === 0 && c <= to) points.push([c, c - (c * below - weighted) / tau]);
    below += law.probs[i];
    weighted += law.probs[i] * c;
  }
  points.push([to, to - law.shortfall(to) / tau]);
  return points.sort((a, b) => a[0] - b[0]);
}

export function objectiveTable(view) {
  const { curve } = view.problem;
  const step = Math.max(1, Math.ceil(curve.size / 60));
  const rows = [];
  for (let i = 0; i < curve.size; i += step) {
    const mine = view.law ? curve.budget[i] - view.law.shortfall(curve.budget[i]) / view.tau : NaN;
    rows.push([short(curve.budget[i]), short(curve.objective(i, view.tau)), short(mine)]);
  }
  return table(["Budget c", "Best policies", "This policy"], rows, "c \u2212 V(c) / tau");
}
