// A picture of the domain with the way of an episode in it: the cells of a grid, or states against steps.

import { svg, textWidth } from "./dom.js";
import { percent } from "./format.js";
import { actionAt, clipped } from "./heatmap.js";
import { path } from "./plot.js";
import { linear } from "./scales.js";

const TURNS = { u: -90, r: 0, d: 90, l: 180 };
const SIGNS = { start: "start", goal: "goal", trap: "trap" };

/** Draw the domain with the episode up to step t; returns height and description. */
export function drawDomain(picture, width, policy, episode, t) {
  const domain = policy.raw.domain;
  return domain.kind === "grid"
    ? drawGrid(picture, width, policy, episode, t)
    : drawChain(picture, width, policy, episode, t);
}

function drawGrid(picture, width, policy, episode, t) {
  const { width: across, cells, beside } = policy.raw.domain;
  const size = Math.max(24, Math.min(64, Math.floor((width - 2) / across)));
  const left = Math.floor((width - size * across) / 2);
  const middle = (state) => {
    if (state < cells.length)
      return [left + ((state % across) + 0.5) * size, (Math.floor(state / across) + 0.5) * size + 1];
    return null;
  };
  const seen = new Map();
  episode.states.slice(0, t + 1).forEach((state) => seen.set(state, (seen.get(state) || 0) + 1));
  const memory = episode.memory ? episode.memory[t] : null;
  const inside = cells.map((kind, s) => ({ kind, s, at: middle(s) })).filter(({ kind }) => kind !== "outside");
  for (const { kind, s, at } of inside) {
    const [x, y] = [at[0] - size / 2 + 1, at[1] - size / 2 + 1];
    const name = `cell ${kind}${seen.has(s) ? " seen" : ""}`;
    picture.append(svg("rect", { class: name, x, y, width: size - 2, height: size - 2 }));
  }
  const way = episode.states.slice(0, t + 1).map(middle);
  const d = path(way.map((point) => point || [NaN, NaN]));
  picture.append(svg("path", { class: "way", d }));
  for (const { kind, s, at } of inside) {
    const [x, y] = at;
    const sign = SIGNS[kind];
    const text = sign && size < 40 ? sign[0].toUpperCase() : sign;
    if (sign) picture.append(svg("text", { class: "sign", x, y: y - size / 2 + 13, "text-anchor": "middle" }, text));
    const turn = kind === "cell" || kind === "start" ? arrowAt(policy, t, s, memory) : undefined;
    if (turn === undefined) continue;
    const place = `translate(${x} ${y + (sign ? 6 : 0)}) rotate(${turn})`;
    picture.append(svg("path", { class: "arrow", d: "M-7 0H6M2 -4L6 0L2 4", transform: place }));
  }
  const rows = Math.floor(cells.findLastIndex((kind) => kind !== "outside") / across) + 1;
  const now = middle(episode.states[t]);
  if (now) picture.append(svg("circle", { class: "here", cx: now[0], cy: now[1], r: Math.max(6, size / 6) }));
  else if (beside.includes(episode.states[t])) {
    picture.append(
      svg(
        "text",
        { class: "aside", x: width / 2, y: rows * size + 20, "text-anchor": "middle" },
        "The episode has left the grid.",
      ),
    );
  }
  return {
    height: rows * size + 28,
    label: `Grid of ${across} columns; the episode is in state ${policy.raw.labels[episode.states[t]]} at step ${t}.`,
  };
}

/** Where the arrow of a cell points, in degrees; nothing where the policy says nothing or the action moves nowhere. */
function arrowAt(policy, t, state, memory) {
  const { table, domain } = policy.raw;
  if (!table) return undefined;
  const action = actionAt(table, Math.min(t, table.horizon - 1), state, memory);
  return action === null ? undefined : TURNS[domain.arrows[action]];
}

function drawChain(picture, width, policy, episode, t) {
  const { possible, flows } = policy.raw.domain;
  const states = [...new Set(possible.flat(2))].sort((a, b) => a - b);
  const names = states.map((s) => clipped(policy.raw.labels[s] || String(s), 14));
  const left = 22 + Math.max(...names.map((name) => textWidth(name)));
  const steps = flows.length;
  const gap = Math.max(26, Math.min(52, 230 / states.length));
  const x = linear(0, steps, left, width - 16);
  const y = (s) => 20 + states.indexOf(s) * gap;
  const bottom = 20 + (states.length - 1) * gap + 26;
  const move = (h, s, to) => {
    const bend = (x(h + 1) - x(h)) / 2;
    return `M${x(h)} ${y(s)}C${x(h) + bend} ${y(s)} ${x(h + 1) - bend} ${y(to)} ${x(h + 1)} ${y(to)}`;
  };
  const total = flows[0].reduce((n, [, , count]) => n + count, 0);
  for (let h = 0; h < steps; h++) {
    for (const [s, to] of possible[possible.length > 1 ? h : 0])
      picture.append(svg("path", { class: "possible", d: move(h, s, to) }));
  }
  flows.forEach((step, h) => {
    for (const [s, to, count] of step) {
      const title = svg(
        "title",
        {},
        `${names[states.indexOf(s)]} to ${names[states.indexOf(to)]}: ${percent(count / total)} of episodes`,
      );
      picture.append(svg("path", { class: "flow", d: move(h, s, to), "stroke-width": 1 + 9 * (count / total) }, title));
    }
  });
  states.forEach((s, i) =>
    picture.append(svg("text", { class: "row", x: left - 14, y: y(s) + 4, "text-anchor": "end" }, names[i])),
  );
  for (let h = 0; h <= steps; h++) {
    for (const s of states) picture.append(svg("circle", { class: "knot", cx: x(h), cy: y(s), r: 2 }));
    const every = Math.ceil((22 * (steps + 1)) / (width - left));
    if (h % every === 0) picture.append(svg("text", { class: "tick", x: x(h), y: bottom, "text-anchor": "middle" }, h));
  }
  for (let h = 0; h < Math.min(t, steps); h++)
    picture.append(svg("path", { class: "way", d: move(h, episode.states[h], episode.states[h + 1]) }));
  picture.append(svg("circle", { class: "here", cx: x(t), cy: y(episode.states[t]), r: 6 }));
  picture.append(
    svg("text", { class: "tick name", x: (left + width - 16) / 2, y: bottom + 17, "text-anchor": "middle" }, "step"),
  );
  return {
    height: bottom + 24,
    label: `States against steps; the episode is in state ${policy.raw.labels[episode.states[t]]} at step ${t}.`,
  };
}
