// Maps of a policy on observations: its action and what it expects to fall short by, over two coordinates.

import { html, svg, table } from "./dom.js";
import { short } from "./format.js";
import { actionClass, actionLegend } from "./heatmap.js";
import { edges, Maps } from "./mapdata.js";
import { figure, path, xAxis, yAxis, yRoom } from "./plot.js";
import { linear } from "./scales.js";

const TOP = 22;
const SHADES = 16;
const SAMPLED = 8;

/** Draw one map; `kind(cell)` is the class of a cell, `words(cell)` what is said about it. */
function drawMap(picture, width, maps, kind, words) {
  const [xs, ys] = [edges(maps.across), edges(maps.up)];
  const flat = maps.up.length === 1;
  const high = flat ? 40 : Math.min(Math.round(0.7 * width), 340);
  const left = flat ? 12 : yRoom([ys[0], ys.at(-1)]);
  const x = linear(xs[0], xs.at(-1), left, width - 12);
  const y = linear(ys[0], ys.at(-1), TOP + high, TOP);
  for (let r = 0; r < maps.up.length; r++) {
    for (let c = 0; c < maps.across.length; ) {
      const cell = maps.at(r, c);
      const [shade, met] = [kind(cell), maps.isMet(cell)];
      let end = c + 1;
      while (end < maps.across.length && kind(maps.at(r, end)) === shade && maps.isMet(maps.at(r, end)) === met) end++;
      const where = `${short(xs[c], 3)} to ${short(xs[end], 3)}${flat ? "" : `, ${short(maps.up[r], 3)}`}`;
      picture.append(
        svg(
          "rect",
          {
            class: `tile ${shade}${met ? "" : " unmet"}`,
            x: x(xs[c]),
            width: x(xs[end]) - x(xs[c]),
            y: y(ys[r + 1]),
            height: y(ys[r]) - y(ys[r + 1]),
          },
          svg("title", {}, `${where}: ${words(cell)}${met ? "" : " (never met)"}`),
        ),
      );
      c = end;
    }
  }
  if (!flat) {
    yAxis(picture, y, left, { to: left });
    picture.append(svg("text", { class: "aside", x: left, y: 14 }, `up: ${maps.name(1)}`));
    const { ways } = maps.raw;
    for (const [i, style] of [[0, "solid"], [Math.max(ways.length - 2, 0), "dashed"]]) {
      const d = path(ways[i].map(([a, b]) => [x(a), y(b)]));
      picture.append(svg("path", { class: "trail under", d }), svg("path", { class: `trail ${style}`, d }));
    }
  }
  xAxis(picture, x, TOP + high, { label: maps.name(0) });
  return TOP + high + 42;
}

/** Some cells of a map as a table. */
function mapTable(maps, words, title) {
  const some = (values) => {
    const count = Math.min(values.length, SAMPLED);
    return Array.from({ length: count }, (_, i) => Math.round((i * (values.length - 1)) / Math.max(count - 1, 1)));
  };
  const columns = some(maps.across);
  const head = maps.up.length > 1 ? `${maps.name(1)} \\ ${maps.name(0)}` : maps.name(0);
  const rows = some(maps.up).map((r) => [
    maps.up.length > 1 ? short(maps.up[r], 3) : "",
    ...columns.map((c) => words(maps.at(r, c))),
  ]);
  return table([head, ...columns.map((c) => short(maps.across[c], 3))], rows, title);
}

/** A slider for one of the choices; null where there is nothing to choose. */
function slider(id, label, count, place, words, moved) {
  if (count < 2) return null;
  const said = html("output", { for: id }, words(place));
  const range = html("input", {
    type: "range",
    id,
    min: 0,
    max: count - 1,
    step: 1,
    value: place,
    "aria-valuetext": words(place),
    oninput: () => {
      moved(Number(range.value));
      said.textContent = words(Number(range.value));
      range.setAttribute("aria-valuetext", said.textContent);
    },
  });
  return html("div", { class: "controls" }, html("label", { for: id }, `${label} `, said), range);
}

/** What is drawn, in words. */
function explanation(raw) {
  const fixed = raw.others.slice(0, 6).map(([j, value]) => `[${j}] = ${short(value, 3)}`);
  const more = raw.others.length > 6 ? " and so on" : "";
  const which = raw.others.length
    ? " Drawn are the two coordinates that change action and value most when they are shuffled; the others are those " +
      `of one observation that was met, the nearest to the medians: ${fixed.join(", ")}${more}.`
    : "";
  return (
    "The policy as a map. Faint cells are far from what the watched episodes met: believe them less. " +
    `Lines: the way of the worst episode (solid) and of the median one (dashed), all steps.${which}`
  );
}

/** Maps of the action and of the shortfall, with sliders for step, budget and slice. */
export function mountMaps(page, place, policy) {
  const maps = new Maps(policy.raw.maps);
  const { raw } = maps;
  const count = Math.max(policy.raw.actions.length, 1 + maps.actions.reduce((a, b) => Math.max(a, b), 0));
  const name = (a) => policy.raw.actions[a] ?? `action ${a}`;
  const redraw = () => updates.forEach((update) => update());
  const budgetWords = (i) => {
    const usual = raw.budgets[maps.step][Math.floor(maps.budgets[maps.step] / 2)];
    const more = raw.budgets[maps.step][i] - usual;
    const than = `${short(Math.abs(more), 3)} ${more > 0 ? "more" : "less"} than usual`;
    return `${short(raw.budgets[maps.step][i], 4)}, ${more === 0 ? "as usual then" : than}`;
  };
  const budgetPlace = html("div", {});
  const showBudgets = () => {
    maps.budget = Math.min(maps.budget, maps.budgets[maps.step] - 1);
    if (!raw.budgets) return;
    const moved = (i) => {
      maps.budget = i;
      redraw();
    };
    const count = maps.budgets[maps.step];
    const found = slider("map-budget", "Budget left to earn:", count, maps.budget, budgetWords, moved);
    budgetPlace.replaceChildren(...(found ? [found] : []));
  };
  const steps = slider("map-step", "Step", raw.steps.length, 0, (i) => String(raw.steps[i]), (i) => {
    maps.step = i;
    showBudgets();
    redraw();
  });
  const third = (i) => `${maps.name(2)} = ${short(raw.slices[i], 3)}`;
  const slices = slider("map-slice", "Slice", maps.slices, maps.slice, third, (i) => {
    maps.slice = i;
    redraw();
  });
  showBudgets();
  place.append(html("p", { class: "caption" }, explanation(raw)), steps || "", budgetPlace, slices || "");
  const grid = html("div", { class: maps.values ? "pair" : "pair one" });
  place.append(grid);
  const actionWords = (cell) => name(maps.actions[maps.begin() + cell]);
  const updates = [
    figure(grid, {
      title: "Action over state",
      caption: () => `Each colour is an action, at step ${raw.steps[maps.step]}.`,
      controls: actionLegend(policy, new Set(maps.actions)),
      draw: (picture, width) => {
        const kind = (cell) => actionClass(maps.actions[maps.begin() + cell], count);
        const height = drawMap(picture, width, maps, kind, actionWords);
        return { height, label: `Map of actions at step ${raw.steps[maps.step]}.` };
      },
      rows: () => mapTable(maps, actionWords, "Actions in some cells"),
    }),
  ];
  if (maps.values) {
    const valueWords = (cell) => short(maps.values[maps.begin() + cell], 4);
    const shade = (v, [low, high]) =>
      `seq${high > low ? Math.min(SHADES - 1, Math.floor((SHADES * (v - low)) / (high - low))) : 0}`;
    updates.push(
      figure(grid, {
        title: "Shortfall that the model expects",
        caption: () => {
          const [low, high] = maps.range();
          const span = `from ${short(low, 3)} (dark) to ${short(high, 3)} (light)`;
          return `What is missing to this budget on average, ${span}.`;
        },
        draw: (picture, width) => {
          const range = maps.range();
          const kind = (cell) => shade(maps.values[maps.begin() + cell], range);
          const height = drawMap(picture, width, maps, kind, valueWords);
          return { height, label: `Map of the expected shortfall at step ${raw.steps[maps.step]}.` };
        },
        rows: () => mapTable(maps, valueWords, "Expected shortfall in some cells"),
      }),
    );
  }
  for (const update of updates) page.parts.push({ of: ["policy"], draw: update });
}
