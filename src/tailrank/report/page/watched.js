// A policy on observations: which actions it plays where a feature lies, and a few of its episodes.

import { html, svg, table } from "./dom.js";
import { percent, short } from "./format.js";
import { actionClass } from "./heatmap.js";
import { unpack } from "./law.js";
import { figure, path, xAxis, yAxis, yRoom } from "./plot.js";
import { linear, padded } from "./scales.js";

const HEIGHT = 130;
const TOP = 10;
const STRIP = 12;

function nameOf(policy, action) {
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
    const at = x(i);
    if (at - 18 < end) return;
    group.append(svg("text", { x: at, y: HEIGHT + 16, "text-anchor": "middle" }, short(edge, 3)));
    end = at + 22;
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

/** Draw what some episodes earn, with a strip of their actions below each; returns the height and a description. */
function drawPlayed(picture, width, policy) {
  const { played, watched } = policy.raw;
  const most = watched ? watched.n_actions : 1 + Math.max(...played.flatMap((one) => one.actions));
  const earned = played.map((one) => {
    let total = 0;
    return [0, ...unpack(one.rewards)].map((r) => (total += r));
  });
  const steps = Math.max(...played.map((one) => one.actions.length), 1);
  const values = earned.flat();
  const [low, high] = padded(Math.min(...values), Math.max(...values), 0.06);
  const left = yRoom([low, high]);
  const x = linear(0, steps, left, width - 60);
  const y = linear(low, high, 200, TOP);
  yAxis(picture, y, left, { to: width - 60 });
  earned.forEach((line, i) => {
    picture.append(svg("path", { class: `line group${i % 6}`, d: path(line.map((v, t) => [x(t), y(v)])) }));
  });
  xAxis(picture, x, 200, { label: "step", whole: true });
  let top = 248;
  played.forEach((one, i) => {
    picture.append(
      svg("line", { class: `line group${i % 6}`, x1: left - 22, x2: left - 8, y1: top + 6, y2: top + 6 }),
      svg("text", { class: "aside", x: width - 54, y: top + 10 }, short(earned[i].at(-1), 5)),
    );
    let from = 0;
    one.actions.forEach((action, t) => {
      if (t + 1 < one.actions.length && one.actions[t + 1] === action) return;
      const title = svg("title", {}, `steps ${from} to ${t}: ${nameOf(policy, action)}`);
      const kind = `act ${actionClass(action, most)}`;
      const wide = Math.max(0.5, x(t + 1) - x(from));
      picture.append(svg("rect", { class: kind, x: x(from), width: wide, y: top, height: STRIP }, title));
      from = t + 1;
    });
    top += STRIP + 8;
  });
  const told = earned.map((line, i) => `${short(line.at(-1))} in ${played[i].actions.length} steps`);
  return { height: top + 4, label: `Episodes that earn ${told.join(", ")}.` };
}

/** The same as a table: what each episode earned and how long it was. */
function playedTable(policy) {
  const rows = policy.raw.played.map((one, i) => {
    const total = unpack(one.rewards).reduce((a, b) => a + b, 0);
    return [`episode ${i + 1}`, short(total), String(one.actions.length)];
  });
  return table(["Episode", "Return", "Steps"], rows, "Episodes of the policy");
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

/** Some episodes of a policy on observations. */
export function mountPlayed(page, place, policy) {
  const update = figure(place, {
    title: "What some episodes earn",
    caption: () =>
      "From the worst to the best of those that were watched: the return so far, and below it a strip of the actions.",
    draw: (picture, width) => drawPlayed(picture, width, policy),
    rows: () => playedTable(policy),
  });
  page.parts.push({ of: ["policy"], draw: update });
}
