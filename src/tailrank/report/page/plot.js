// A figure: title, one sentence, a picture as wide as its place, and the same as a table.

import { html, svg, textWidth } from "./dom.js";
import { short } from "./format.js";
import { ticks } from "./scales.js";

/**
 * Put a figure into `host`. `draw(picture, width)` draws and returns {height, label}; `rows()` returns a table
 * element for those who cannot or would rather not look. Returns a function that draws it anew.
 */
export function figure(host, { title, caption, draw, rows, controls, kind = "" }) {
  const picture = svg("svg", { role: "img", class: "picture" });
  const canvas = html("div", { class: "canvas" }, picture);
  const sentence = html("p", { class: "caption" });
  const place = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title}: table` });
  const details = html("details", {}, html("summary", {}, "Show as a table"), place);
  host.append(
    html(
      "figure",
      { class: kind },
      html("figcaption", {}, html("h3", {}, title), sentence),
      controls || null,
      canvas,
      rows ? details : null,
    ),
  );
  let width = 0;
  const update = () => {
    width = Math.floor(canvas.clientWidth);
    if (width < 40) return;
    picture.replaceChildren();
    picture.setAttribute("width", width);
    const { height, label } = draw(picture, width);
    picture.setAttribute("height", height);
    picture.setAttribute("aria-label", label);
    sentence.replaceChildren(...[caption()].flat());
    if (details.open && rows) place.replaceChildren(rows());
  };
  details.addEventListener("toggle", update);
  new ResizeObserver(() => Math.floor(canvas.clientWidth) !== width && update()).observe(canvas);
  return update;
}

/** Numbers below a plot, and what they are. */
export function xAxis(picture, scale, y, { label, format = short, whole = false }) {
  const [from, to] = scale.range;
  const group = svg("g", { class: "axis" }, svg("line", { x1: from, x2: to, y1: y, y2: y }));
  picture.append(group);
  let end = -Infinity;
  for (const x of ticks(...scale.domain, Math.max(3, Math.floor((to - from) / 85)), whole)) {
    const at = scale(x);
    const half = textWidth(format(x)) / 2;
    const middle = Math.min(at, to + 10 - half);
    group.append(svg("line", { x1: at, x2: at, y1: y, y2: y + 4 }));
    if (middle - half < end + 8) continue;
    group.append(svg("text", { x: middle, y: y + 17, "text-anchor": "middle" }, format(x)));
    end = middle + half;
  }
  if (label)
    group.append(svg("text", { x: (from + to) / 2, y: y + 35, "text-anchor": "middle", class: "name" }, label));
}

/** Numbers left of a plot with faint lines across it. */
export function yAxis(picture, scale, x, { to, format = short, count, label }) {
  const [bottom, top] = scale.range;
  const group = svg("g", { class: "axis" });
  picture.append(group);
  for (const y of ticks(...scale.domain, count || Math.max(2, Math.floor((bottom - top) / 38)))) {
    const at = scale(y);
    group.append(
      svg("line", { class: "grid", x1: x, x2: to, y1: at, y2: at }),
      svg("text", { x: x - 6, y: at + 4, "text-anchor": "end" }, format(y)),
    );
  }
  if (label) group.append(svg("text", { x: 2, y: top - 8, class: "name" }, label));
}

/** Room that the numbers of a y axis need. */
export function yRoom(domain, format = short) {
  const all = [2, 3, 4, 5, 6].flatMap((count) => ticks(...domain, count));
  return 12 + Math.ceil(Math.max(...all.map((y) => textWidth(format(y)))));
}

/**
 * Labels like flags beside the lines they name, in as few rows as they need not to overlap, the first row at `y`.
 * Each is {x, text, kind, placed}. Flags fly to the right, left to right, and near the right end to the left, right to
 * left: so no line runs through a flag, because it ends at its own row.
 */
export function labels(picture, items, { from, to, y, line = 15 }) {
  const flags = items.map((item) => {
    const text = svg("text", { class: `label ${item.kind}` }, item.text);
    picture.append(text);
    const width = textWidth(item.text, 600);
    return { ...item, text, width, turned: item.x + 5 + width > to };
  });
  const order = [
    ...flags.filter((flag) => !flag.turned).sort((a, b) => a.x - b.x),
    ...flags.filter((flag) => flag.turned).sort((a, b) => b.x - a.x),
  ];
  const rows = [];
  for (const { x, width, turned, text, placed } of order) {
    const left = turned ? Math.max(from, Math.min(x - 5, to) - width) : x + 5;
    let row = rows.findIndex((taken) => taken.every(([a, b]) => left > b + 8 || left + width < a - 8));
    if (row < 0) row = rows.push([]) - 1;
    rows[row].push([left, left + width]);
    text.setAttribute("x", left);
    text.setAttribute("y", y + row * line);
    if (placed) placed(y + row * line);
  }
}

/** The points as the `d` of a path, with a gap where a number is missing; `steps` goes across, then up. */
export function path(points, steps = false) {
  let text = "";
  let open = false;
  let last = 0;
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      open = false;
      continue;
    }
    const at = `${x.toFixed(1)} ${y.toFixed(1)}`;
    text += open ? (steps ? `L${x.toFixed(1)} ${last.toFixed(1)}L${at}` : `L${at}`) : `M${at}`;
    open = true;
    last = y;
  }
  return text;
}
