// The laws of the return: this policy, the best one at the slider's level, the risk-neutral one, on one axis.

import { svg, table } from "./dom.js";
import { fixed, percent, short, tailWords } from "./format.js";
import { labels, xAxis, yAxis } from "./plot.js";
import { bars, heights, span } from "./bars.js";
import { linear, padded } from "./scales.js";

const PANEL = 100;
const HEAD = 68;
/** Pixels below which a tail is too thin to be seen. */
const THIN = 6;
/** A law whose highest bar is so many times lower than another's would be flat on their common scale. */
const FLAT = 8;

/** Which laws are drawn: the best one only where it is another than this policy's. */
export function panels(view) {
  const found = [];
  if (view.law) found.push({ name: "This policy", kind: "mine", law: view.law });
  const best = view.bestPolicy;
  if (best && !same(best.law, view.law, view.tau))
    found.push({ name: `Best policy for ${tailWords(view.tau)}`, kind: "best", law: best.law });
  if (view.neutral) found.push({ name: "Risk-neutral policy", kind: "neutral", law: view.neutral });
  for (const other of view.beside) found.push({ name: other.name, kind: "neutral", law: other.law });
  return found;
}

function same(a, b, tau) {
  if (!b) return false;
  const near = (x, y) => Math.abs(x - y) <= 1e-9 * (1 + Math.abs(x));
  return near(a.mean, b.mean) && near(a.cvar(tau), b.cvar(tau)) && near(a.cvar(tau / 2), b.cvar(tau / 2));
}

/** Draw all panels; returns the height and a description. */
export function drawReturns(picture, width, view) {
  const shown = panels(view);
  const [low, high] = span(view.laws);
  const left = 44;
  const grid = bars(
    shown.map((p) => p.law),
    low,
    high,
    Math.max(16, Math.floor((width - left) / 9)),
  );
  const [from, to] = padded(low, high, 0.03);
  const x = linear(from, to, left, width - 10);
  let top = 0;
  const told = [];
  // What is compared has one scale; laws that would be flat on it have another one together.
  const masses = shown.map((panel) => heights(panel.law, view.tau, grid, [low, high]));
  const highest = masses.map((mass) => Math.max(...[...mass.worst].map((w, i) => w + mass.rest[i])));
  const most = Math.max(...highest);
  const flat = (height) => height * FLAT < most;
  const mostFlat = Math.max(...highest.filter(flat));
  for (const [i, panel] of shown.entries()) {
    top = drawPanel(picture, panel, view, grid, x, top, masses[i], flat(highest[i]) ? mostFlat : most);
    const [cvar, mean] = [panel.law.cvar(view.tau), panel.law.mean].map((v) => fixed(v, view.decimals));
    told.push(`${panel.name}: CVaR ${cvar}, mean ${mean}`);
  }
  xAxis(picture, x, top, { label: "return of an episode" });
  return { height: top + 42, label: `Distribution of returns. ${told.join(". ")}.` };
}

function drawPanel(picture, panel, view, grid, x, top, mass, highest) {
  const { law, kind, name } = panel;
  const { tau, decimals } = view;
  const [left, right] = x.range;
  const base = top + HEAD + PANEL;
  const y = linear(0, highest * 1.04, base, top + HEAD);
  yAxis(picture, y, left, { to: right, format: percent, count: 3 });
  picture.append(svg("text", { x: 0, y: top + 22, class: "heading" }, name));
  const wide = Math.max(2, Math.min(26, Math.abs(x(grid.width) - x(0)) * (grid.single ? 0.72 : 0.9)));
  grid.centre.forEach((centre, i) => {
    const [w, all] = [mass.worst[i], mass.worst[i] + mass.rest[i]];
    if (all <= 0) return;
    const where = grid.single
      ? short(centre)
      : `${short(centre - grid.width / 2)} to ${short(centre + grid.width / 2)}`;
    const title = svg("title", {}, `${where}: ${percent(all)}`);
    const bar = (a, b, of) =>
      svg("rect", {
        class: of,
        x: x(centre) - wide / 2,
        width: wide,
        y: y(b),
        height: Math.max(y(a) - y(b), b > a ? 0.75 : 0),
      });
    picture.append(svg("g", {}, title, bar(w, all, `rest ${kind}`), bar(0, w, "tail")));
  });
  const marks = [{ at: law.cvar(tau), text: "CVaR", kind: "cvar" }];
  if (tau < 1)
    marks.push({ at: law.quantile(tau), text: "VaR", kind: "var" }, { at: law.mean, text: "mean", kind: "mean" });
  const items = marks.map((mark) => {
    const at = Math.min(Math.max(x(mark.at), left), right);
    const line = svg("line", { class: `mark ${mark.kind}`, x1: at, x2: at, y1: top + HEAD - 4, y2: base });
    picture.append(line);
    return {
      x: at,
      text: `${mark.text} ${fixed(mark.at, decimals)}`,
      kind: mark.kind,
      placed: (y) => line.setAttribute("y1", y - 9),
    };
  });
  labels(picture, items, { from: left, to: right, y: top + 40 });
  inset(picture, { tau, grid, mass, y, x, top: top + HEAD, base, lines: items.map((item) => item.x) });
  const beyond = [
    ["\u2190", mass.outside[0]],
    ["\u2192", mass.outside[1]],
  ].filter(([, share]) => share > 0);
  const words = beyond.map(([arrow, share]) => `${percent(share)} further ${arrow}`).join(", ");
  if (words) picture.append(svg("text", { class: "aside", x: right, y: top + 22, "text-anchor": "end" }, words));
  return base;
}

/** A tail too thin to be seen is drawn once more, larger, where the panel is empty. */
function inset(picture, { tau, grid, mass, y, x, top, base, lines }) {
  const worst = [...mass.worst];
  const thickest = Math.max(...worst);
  if (tau === 1 || !(thickest > 0) || base - y(thickest) >= THIN) return;
  const places = worst.map((w, i) => i).filter((i) => worst[i] > 0);
  const [first, last] = [places[0], places.at(-1)];
  const [left, right] = x.range;
  const wide = Math.min(260, (right - left) / 3);
  const empty = (from, to) =>
    lines.every((at) => at < from || at > to) &&
    grid.centre.every((c, i) => x(c) < from || x(c) > to || base - y(mass.worst[i] + mass.rest[i]) < 30);
  const steps = Array.from({ length: 9 }, (_, i) => left + 12 + ((right - wide - left - 16) * i) / 8);
  const from = steps.find((at) => empty(at - 6, at + wide + 6));
  if (from === undefined) return;
  const half = grid.width / 2;
  const across = linear(grid.centre[first] - half, grid.centre[last] + half, from + 4, from + wide - 4);
  const up = linear(0, thickest * 1.05, top + 68, top + 22);
  const box = svg("g", { class: "inset" });
  box.append(svg("rect", { class: "frame", x: from, y: top + 2, width: wide, height: 84 }));
  const times = short((up.range[0] - up.range[1]) / (base - y(thickest)), 2);
  const words = `the worst ${percent(tau)}, ${times} times as high`;
  box.append(svg("text", { class: "aside", x: from + 6, y: top + 15 }, words));
  const each = Math.max(1.5, Math.min(18, (across(grid.width) - across(0)) * 0.8));
  for (const i of places) {
    const at = across(grid.centre[i]) - each / 2;
    const title = svg("title", {}, `${short(grid.centre[i])}: ${percent(worst[i])}`);
    const high = up(0) - up(worst[i]);
    box.append(svg("rect", { class: "tail", x: at, width: each, y: up(worst[i]), height: high }, title));
  }
  for (const [i, anchor, at] of [
    [first, "start", from + 4],
    [last, "end", from + wide - 4],
  ])
    box.append(svg("text", { class: "aside", x: at, y: top + 81, "text-anchor": anchor }, short(grid.centre[i], 4)));
  picture.append(box);
}

/** The same as a table. */
export function returnsTable(view) {
  const shown = panels(view);
  const [low, high] = span(view.laws);
  const grid = bars(
    shown.map((p) => p.law),
    low,
    high,
    40,
  );
  const all = shown.map((p) => heights(p.law, view.tau, grid, [low, high]));
  const rows = [...grid.centre].map((centre, i) => {
    const where = grid.single
      ? short(centre)
      : `${short(centre - grid.width / 2)} to ${short(centre + grid.width / 2)}`;
    return [where, ...all.map((mass) => percent(mass.worst[i] + mass.rest[i]))];
  });
  return table(["Return", ...shown.map((p) => p.name)], rows, "Probability of returns");
}
