// Some episodes of a policy on observations: what they earn, do and see, and pictures of them.

import { html, missing, svg, table } from "./dom.js";
import { short } from "./format.js";
import { actionClass } from "./heatmap.js";
import { unpack } from "./law.js";
import { figure, path, xAxis, yAxis, yRoom } from "./plot.js";
import { linear, padded } from "./scales.js";
import { nameOf } from "./watched.js";

const HEIGHT = 130;
const TOP = 10;
const STRIP = 12;

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

/** Draw one coordinate of the observations along the same episodes. */
function drawSeen(picture, width, policy, place) {
  const { played, observed, stride } = policy.raw;
  const lines = played.map((one) => unpack(one.seen[place]));
  const values = lines.flatMap((line) => [...line]);
  const [low, high] = padded(Math.min(...values), Math.max(...values), 0.06);
  const left = yRoom([low, high]);
  const x = linear(0, stride * Math.max(1, ...lines.map((line) => line.length - 1)), left, width - 14);
  const y = linear(low, high, HEIGHT, TOP);
  yAxis(picture, y, left, { to: width - 14 });
  lines.forEach((line, i) => {
    const points = Array.from(line, (v, t) => [x(stride * t), y(v)]);
    picture.append(svg("path", { class: `line group${i % 6}`, d: path(points) }));
  });
  xAxis(picture, x, HEIGHT, { label: "step", whole: true });
  return { height: HEIGHT + 42, label: `observation[${observed[place]}] along the episodes.` };
}

/** The same at some steps as a table. */
function seenTable(policy, place) {
  const { played, observed, stride } = policy.raw;
  const lines = played.map((one) => unpack(one.seen[place]));
  const last = Math.max(...lines.map((line) => line.length - 1));
  const steps = [...new Set(Array.from({ length: 11 }, (_, i) => Math.round((i * last) / 10)))];
  const cells = (t) => lines.map((line) => (t < line.length ? short(line[t], 4) : ""));
  const rows = steps.map((t) => [String(stride * t), ...cells(t)]);
  const names = played.map((_, i) => episodeName(i, played.length));
  return table(["Step", ...names], rows, `observation[${observed[place]}]`);
}

/** Which of the episodes that were watched it is. */
function episodeName(i, count) {
  return count === 4 ? ["worst", "one of ten is worse", "median", "best"][i] : `episode ${i + 1}`;
}

/** Which line is which episode. */
function episodeLegend(policy) {
  const { played } = policy.raw;
  const items = played.map((_, i) =>
    html("li", {}, html("span", { class: `swatch group${i % 6}` }), episodeName(i, played.length)),
  );
  return html("ul", { class: "legend", "aria-label": "Episodes" }, ...items);
}

/** Strips of pictures of the worst and the median episode, or why there are none. */
function filmed(policy) {
  const { film } = policy.raw;
  if (!film) return [missing(policy.absent.film)];
  return film.map((strip) => {
    const pictures = strip.pictures.map((data, i) => {
      const [width, height] = strip.size;
      const alt = `The ${strip.name} episode after ${strip.at[i]} steps`;
      const image = html("img", { src: `data:image/png;base64,${data}`, width, height, alt });
      return html("li", {}, image, html("span", {}, `step ${strip.at[i]}`));
    });
    const title = `The ${strip.name} episode, which earned ${short(strip.return, 5)}`;
    const strips = html("ol", { class: "film", tabindex: 0, "aria-label": title }, ...pictures);
    return html("figure", {}, html("figcaption", {}, html("h3", {}, title)), strips);
  });
}

/** The same as a table: what each episode earned and how long it was. */
function playedTable(policy) {
  const rows = policy.raw.played.map((one, i) => {
    const total = unpack(one.rewards).reduce((a, b) => a + b, 0);
    return [episodeName(i, policy.raw.played.length), short(total), String(one.actions.length)];
  });
  return table(["Episode", "Return", "Steps"], rows, "Episodes of the policy");
}

/** Some episodes of a policy on observations. */
export function mountPlayed(page, place, policy) {
  place.append(...filmed(policy), episodeLegend(policy));
  const update = figure(place, {
    title: "What some episodes earn",
    caption: () =>
      "From the worst to the best of those that were watched: the return so far, and below it a strip of the actions.",
    draw: (picture, width) => drawPlayed(picture, width, policy),
    rows: () => playedTable(policy),
  });
  page.parts.push({ of: ["policy"], draw: update });
  const grid = html("div", { class: "pair" });
  place.append(grid);
  policy.raw.observed.forEach((feature, i) => {
    const drawn = figure(grid, {
      title: `observation[${feature}]`,
      caption: () => "What the same episodes saw, step by step.",
      draw: (picture, width) => drawSeen(picture, width, policy, i),
      rows: () => seenTable(policy, i),
    });
    page.parts.push({ of: ["policy"], draw: drawn });
  });
}
