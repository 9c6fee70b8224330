// Mean against CVaR of the best policies, of this one and of the risk-neutral one.

import { svg, table, textWidth } from "./dom.js";
import { fixed, percent } from "./format.js";
import { path, xAxis, yAxis, yRoom } from "./plot.js";
import { linear, padded } from "./scales.js";

const HEIGHT = 250;
const TOP = 46;

/** The policies on the frontier: CVaR at the slider's tau and mean of each. */
function frontier(view) {
  const levels = view.model.levels;
  const points = view.problem.best.map((entry) => ({
    cvar: entry.law.cvar(view.tau),
    mean: entry.mean,
    level: levels[entry.at[0]],
    mine: entry === view.bestPolicy,
  }));
  return points.sort((a, b) => a.level - b.level);
}

/** Mean against CVaR. */
export function drawFrontier(picture, width, view) {
  const { tau, decimals, law, neutral } = view;
  const points = frontier(view);
  const marks = [];
  if (law) marks.push({ cvar: law.cvar(tau), mean: law.mean, text: "this policy", kind: "mine" });
  if (neutral) marks.push({ cvar: neutral.cvar(tau), mean: neutral.mean, text: "risk-neutral", kind: "neutral" });
  const all = [...points, ...marks];
  const domain = (key) => padded(Math.min(...all.map((p) => p[key])), Math.max(...all.map((p) => p[key])), 0.12);
  const [low, high] = domain("mean");
  const left = yRoom([low, high]);
  const x = linear(...domain("cvar"), left, width - 12);
  const y = linear(low, high, HEIGHT, TOP);
  yAxis(picture, y, left, { to: width - 12, label: "mean" });
  picture.append(svg("path", { class: "line best faint", d: path(points.map((p) => [x(p.cvar), y(p.mean)])) }));
  for (const p of points) {
    const title = svg(
      "title",
      {},
      `best for the worst ${percent(p.level)}: CVaR ${fixed(p.cvar, decimals)}, mean ${fixed(p.mean, decimals)}`,
    );
    picture.append(
      svg(
        "circle",
        { class: `dot best${p.mine ? " now" : ""}`, cx: x(p.cvar), cy: y(p.mean), r: p.mine ? 8 : 3.2 },
        title,
      ),
    );
  }
  const taken = [];
  for (const mark of marks) {
    const [cx, cy] = [x(mark.cvar), y(mark.mean)];
    const shape =
      mark.kind === "neutral"
        ? svg("rect", { class: "dot neutral", x: cx - 5, y: cy - 5, width: 10, height: 10 })
        : svg("circle", { class: "dot mine", cx, cy, r: 5 });
    picture.append(shape);
    beside(picture, mark, cx, cy, [left, width - 12], taken);
  }
  xAxis(picture, x, HEIGHT, { label: tau === 1 ? "mean" : `CVaR: mean of the worst ${percent(tau)}` });
  const told = marks.map((m) => `${m.text}: CVaR ${fixed(m.cvar, decimals)}, mean ${fixed(m.mean, decimals)}`);
  return {
    height: HEIGHT + 42,
    label: `Mean against CVaR at tau ${tau}. ${told.join(". ")}.`,
  };
}

/** A label beside its point, on the side where there is room, below what is there already. */
function beside(picture, mark, cx, cy, [from, to], taken) {
  const text = svg("text", { class: `label ${mark.kind}` }, mark.text);
  picture.append(text);
  const width = textWidth(mark.text, 600);
  const right = cx + 14 + width <= to;
  let at = cy - 10;
  while (taken.some((other) => Math.abs(other - at) < 15)) at += 16;
  taken.push(at);
  text.setAttribute("x", right ? cx + 12 : Math.max(from, cx - 12 - width));
  text.setAttribute("y", at);
}

export function frontierTable(view) {
  const rows = frontier(view).map((p) => [
    `worst ${percent(p.level)}`,
    fixed(p.cvar, view.decimals),
    fixed(p.mean, view.decimals),
  ]);
  if (view.law)
    rows.push(["this policy", fixed(view.law.cvar(view.tau), view.decimals), fixed(view.law.mean, view.decimals)]);
  if (view.neutral)
    rows.push([
      "risk-neutral",
      fixed(view.neutral.cvar(view.tau), view.decimals),
      fixed(view.neutral.mean, view.decimals),
    ]);
  return table(["Best policy for the", `CVaR at ${percent(view.tau)}`, "Mean"], rows, "Mean and CVaR");
}
