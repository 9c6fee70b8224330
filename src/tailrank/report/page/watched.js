// A policy on observations: which actions it plays where a feature lies.

import { html, svg, table, textWidth } from "./dom.js";
import { percent, short } from "./format.js";
import { actionClass } from "./heatmap.js";
import { unpack } from "./law.js";
import { figure, yAxis, yRoom } from "./plot.js";
import { linear } from "./scales.js";

const HEIGHT = 130;
const TOP = 10;

export function nameOf(policy, action) {
  return policy.raw.actions[action] ?? `action ${action}`;
}

/** Which colour is which action. */
function watchedLegend(policy) {
  const { n_actions: count } = policy.raw.watched;
  const items = Array.from({ length: count }, (_, a) =>
    html("li", {}, html("span", { class: `swatch act ${actionClass(a, count)}` }), nameOf(policy, a)),
  );
  return html("ul", { class: "legend", "aria-label": "Actions" }, ...items);
}

/** Draw how often each action was played in each range of a feature; returns the height and a description. */
function drawFeature(picture, width, policy, feature) {
  const count = policy.raw.watched.n_actions;
  const edges = unpack(feature.edges);
  const left = yRoom([0, 1], percent);
  const y = linear(0, 1, HEIGHT, TOP);
  const slots = feature.counts.length;
  const x = linear(0, slots, left, width - 14);
  yAxis(picture, y, left, { to: width - 14, format: percent, count: 2 });
  feature.counts.forEach((row, i) => {
    const total = row.reduce((a, b) => a + b, 0);
    let below = 0;
    row.forEach((n, a) => {
      if (!n) return;
      const where = `${short(edges[i], 4)} to ${short(edges[i + 1], 4)}`;
      picture.append(
        svg(
          "rect",
          {
            class: `act ${actionClass(a, count)}`,
            x: x(i) + 1,
            width: Math.max(1, x(i + 1) - x(i) - 2),
            y: y((below + n) / total),
            height: Math.max(0.5, y(below / total) - y((below + n) / total)),
          },
          svg("title", {}, `${where}: ${nameOf(policy, a)} in ${percent(n / total)} of ${total} steps`),
        ),
      );
      below += n;
    });
  });
  const group = svg("g", { class: "axis" });
  let end = -Infinity;
  edges.forEach((edge, i) => {
    const half = textWidth(short(edge, 3)) / 2;
    const at = Math.min(x(i), width - half - 1);
    if (at - half < end + 6) return;
    group.append(svg("text", { x: at, y: HEIGHT + 16, "text-anchor": "middle" }, short(edge, 3)));
    end = at + half;
  });
  picture.append(group);
  const told = `which tells ${short(feature.bits, 2)} bits about them`;
  return { height: HEIGHT + 26, label: `Actions against observation ${feature.feature}, ${told}.` };
}

/** The same as a table. */
function featureTable(policy, feature) {
  const edges = unpack(feature.edges);
  const count = policy.raw.watched.n_actions;
  const names = Array.from({ length: count }, (_, a) => nameOf(policy, a));
  const rows = feature.counts.map((row, i) => {
    const total = row.reduce((a, b) => a + b, 0);
    return [`${short(edges[i], 4)} to ${short(edges[i + 1], 4)}`, ...row.map((n) => percent(n / total))];
  });
  return table([`observation ${feature.feature}`, ...names], rows, "Share of actions");
}

/** What a policy on observations does: shares of actions against the observations that tell most about them. */
export function mountWatched(page, place, policy) {
  const { watched } = policy.raw;
  const words = `Shares of actions in ${watched.steps} steps of fresh episodes, by where an observation lies; `;
  place.append(html("p", { class: "caption" }, `${words}those that tell most about the action come first.`));
  place.append(watchedLegend(policy));
  const grid = html("div", { class: "pair" });
  place.append(grid);
  for (const feature of watched.features) {
    const update = figure(grid, {
      title: `observation[${feature.feature}]`,
      caption: () => `It tells ${feature.bits} bits about the action.`,
      draw: (picture, width) => drawFeature(picture, width, policy, feature),
      rows: () => featureTable(policy, feature),
    });
    page.parts.push({ of: ["policy"], draw: update });
  }
}
