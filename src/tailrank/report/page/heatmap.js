// The policy as a picture: a row for each state, the remaining budget (or level, or step) across, an action a colour.

import { html, svg, table, textWidth } from "./dom.js";
import { short } from "./format.js";
import { xAxis } from "./plot.js";
import { linear } from "./scales.js";

const ROW = 20;
const MOST_ROWS = 40;
const AXES = { budget: "budget left to earn", level: "confidence level", step: "step" };

/** The class of an action's colour: eight colours by name, more in order. */
export function actionClass(action, count) {
  return count <= 8 ? `act${action}` : `seq${Math.min(15, Math.round((15 * action) / (count - 1)))}`;
}

/** The action at (step, state, budget), or null where the table says nothing. */
export function actionAt(tableData, step, state, memory) {
  const index = tableData.axis === "step" ? 0 : step;
  const row = tableData.steps[index] && tableData.steps[index].rows.find((r) => r.state === state);
  if (!row) return null;
  const entry = tableData.axis === "step" ? step : Math.round((memory - row.first) / tableData.unit);
  let end = 0;
  for (let i = 0; i < row.runs.length; i += 2) {
    end += row.runs[i];
    if (entry < end) return row.runs[i + 1];
  }
  return row.runs[row.runs.length - 1];
}

/** Labels of states are cut to what fits. */
export function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

function pieces(row, unit) {
  let at = row.first;
  const found = [];
  for (let i = 0; i < row.runs.length; i += 2) {
    found.push({ from: at, to: at + row.runs[i] * unit, action: row.runs[i + 1] });
    at += row.runs[i] * unit;
  }
  return found;
}

/** The part of the axis where anything happens: beyond its ends every state plays what it plays there. */
function extent(policy, all, step) {
  const { axis, unit } = policy.raw.table;
  const [low, high] = [Math.min(...all.map((p) => p[0].from)), Math.max(...all.map((p) => p[p.length - 1].to))];
  if (axis !== "budget") return [low, high];
  const { episodes } = policy.raw;
  const met = episodes
    ? episodes.kept.filter((e) => e.memory && e.memory.length > step).map((e) => e.memory[step])
    : [];
  const turns = all.flatMap((p) => p.slice(1).map((piece) => piece.from));
  const points = [...turns, ...met];
  if (!points.length) return [low, high];
  const [from, to] = [Math.min(...points), Math.max(...points)];
  const room = Math.max(0.2 * (to - from), 4 * unit);
  return [Math.max(low, from - room), Math.min(high, to + room)];
}

/** Draw the table of one step; `here` is where the player is: {state, memory}. */
export function drawHeatmap(picture, width, policy, step, here) {
  const data = policy.raw.table;
  const rows = data.steps[data.axis === "step" ? 0 : step].rows.slice(0, MOST_ROWS);
  const names = rows.map((row) => clipped(policy.raw.labels[row.state] || String(row.state), 18));
  const left = 14 + Math.max(30, ...names.map((name) => textWidth(name)));
  const all = rows.map((row) => pieces(row, data.unit));
  const [low, high] = extent(policy, all, step);
  const x = linear(low - data.unit / 2, high - data.unit / 2, left, width - 8);
  const count = policy.raw.actions.length;
  rows.forEach((row, r) => {
    const y = 6 + r * ROW;
    picture.append(svg("text", { class: "row", x: left - 8, y: y + 14, "text-anchor": "end" }, names[r]));
    for (const piece of all[r]) {
      const [from, to] = [piece.from, piece.to].map((c) => Math.min(Math.max(x(c - data.unit / 2), left), width - 8));
      if (to <= from) continue;
      const name = policy.raw.actions[piece.action] ?? String(piece.action);
      const range =
        piece.to - piece.from > data.unit * 1.5
          ? `${short(piece.from)} to ${short(piece.to - data.unit)}`
          : short(piece.from);
      const title = svg("title", {}, `${names[r]}, ${AXES[data.axis]} ${range}: action ${name}`);
      const kind = actionClass(piece.action, count);
      picture.append(
        svg("rect", { class: `act ${kind}`, x: from, width: Math.max(to - from, 1), y, height: ROW - 2 }, title),
      );
      if (textWidth(clipped(name, 10)) > to - from - 6) continue;
      picture.append(
        svg(
          "text",
          { class: `in ${kind}`, x: (from + to) / 2, y: y + 13.5, "text-anchor": "middle" },
          clipped(name, 10),
        ),
      );
    }
    if (here && here.state === row.state && here.memory !== null) {
      const at = Math.min(Math.max(x(here.memory), left), width - 8);
      picture.append(svg("circle", { class: "here", cx: at, cy: y + ROW / 2 - 1, r: 6 }));
    }
  });
  const bottom = 8 + rows.length * ROW;
  const format = data.axis === "level" ? (i) => short(data.levels[Math.round(i)] ?? NaN, 3) : short;
  xAxis(picture, x, bottom, { label: AXES[data.axis], format, whole: data.axis !== "budget" });
  return {
    height: bottom + 42,
    label: `Actions by state and ${AXES[data.axis]}${data.axis === "step" ? "" : ` at step ${step}`}.`,
  };
}

/** Actions and their colours. */
export function actionLegend(policy, used) {
  const count = policy.raw.actions.length;
  const shown = [...used].sort((a, b) => a - b).slice(0, 24);
  const items = shown.map((a) =>
    html("li", {}, html("span", { class: `swatch act ${actionClass(a, count)}` }), policy.raw.actions[a] ?? String(a)),
  );
  return html("ul", { class: "legend", "aria-label": "Actions" }, ...items);
}

/** The actions that occur in the table. */
export function usedActions(policy) {
  const used = new Set();
  for (const step of policy.raw.table.steps)
    for (const row of step.rows) for (let i = 1; i < row.runs.length; i += 2) used.add(row.runs[i]);
  return used;
}

/** The table of one step as text. */
export function heatmapTable(policy, step) {
  const data = policy.raw.table;
  const rows = [];
  for (const row of data.steps[data.axis === "step" ? 0 : step].rows.slice(0, MOST_ROWS)) {
    for (const piece of pieces(row, data.unit)) {
      const last = piece.to - data.unit;
      const show = (x) => (data.axis === "level" ? short(data.levels[Math.round(x)], 3) : short(x));
      const range = last - piece.from > data.unit / 2 ? `${show(piece.from)} to ${show(last)}` : show(piece.from);
      rows.push([
        policy.raw.labels[row.state] || String(row.state),
        range,
        policy.raw.actions[piece.action] ?? String(piece.action),
      ]);
    }
  }
  return table(
    ["State", AXES[data.axis], "Action"],
    rows.slice(0, 400),
    `What is played${data.axis === "step" ? "" : ` at step ${step}`}`,
  );
}
