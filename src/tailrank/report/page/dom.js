// Elements: HTML and SVG, always with text as text.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element with attributes (`onclick` and the like listen) and children. */
export function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

let pen = null;
let family = "";

/** The width of text in a picture, in pixels; a canvas measures without laying out the page. */
export function textWidth(text, weight = 400) {
  if (!pen) {
    pen = document.createElement("canvas").getContext("2d");
    family = getComputedStyle(document.body).fontFamily;
  }
  pen.font = `${weight} 12px ${family}`;
  return pen.measureText(text).width;
}

export function byId(id) {
  return document.getElementById(id);
}

/** A number that carries its exact value. */
export function numeral(text, exact, name) {
  const known = exact !== null && exact !== undefined && !Number.isNaN(exact);
  return html(
    "b",
    { class: "num", "data-name": name, "data-exact": known ? exact : null, title: known ? exact : null },
    text,
  );
}

/** A table: headings, rows of cells (the first cell of a row is its heading). */
export function table(headings, rows, caption) {
  const head = html("tr", {}, ...headings.map((text) => html("th", { scope: "col" }, text)));
  const body = rows.map((cells) =>
    html("tr", {}, ...cells.map((cell, i) => html(i ? "td" : "th", i ? {} : { scope: "row" }, cell))),
  );
  return html(
    "table",
    {},
    caption ? html("caption", {}, caption) : null,
    html("thead", {}, head),
    html("tbody", {}, ...body),
  );
}

/** One line that says why a part is not there. */
export function missing(reason) {
  return html("p", { class: "missing" }, reason);
}
