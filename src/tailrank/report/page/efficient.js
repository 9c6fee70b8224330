// The efficient frontier at the plan's own level: points that can be picked, and what each bit of safety costs.

import { svg, table } from "./dom.js";
import { decimalsFor, fixed, percent } from "./format.js";
import { unpack } from "./law.js";
import { path, xAxis, yAxis, yRoom } from "./plot.js";
import { linear, padded } from "./scales.js";

const HEIGHT = 250;
const TOP = 30;

/** The points as objects; `policy` is where the page has the plan behind a point, or null. */
function points(raw) {
  const [cvar, mean, price, upper] = ["cvar", "mean", "price", "upper"].map((name) => unpack(raw[name]));
  const picked = new Map(raw.picked.map((point) => [point.at, point]));
  return Array.from(cvar, (x, i) => ({
    cvar: x,
    mean: mean[i],
    price: price[i],
    upper: upper[i],
    policy: null,
    share: 1,
    ...(picked.get(i) || {}),
  }));
}

const decimals = (all) => decimalsFor(Math.max(...all.map((p) => p.mean)) - Math.min(...all.map((p) => p.cvar)));

/** The frontier, with a ring around the point whose plan the page shows; `choose(policy, id)` shows another. */
export function drawEfficient(picture, width, raw, shown, choose) {
  const all = points(raw);
  const domain = (key) => padded(Math.min(...all.map((p) => p[key])), Math.max(...all.map((p) => p[key])), 0.08);
  const [low, high] = domain("mean");
  const left = yRoom([low, high]);
  const x = linear(...domain("cvar"), left, width - 12);
  const y = linear(low, high, HEIGHT, TOP);
  yAxis(picture, y, left, { to: width - 12, label: "best mean" });
  picture.append(svg("path", { class: "line best", d: path(all.map((p) => [x(p.cvar), y(p.mean)])) }));
  for (const p of all.filter((point) => point.policy !== null)) {
    const now = p.policy === shown;
    const words = `CVaR ${fixed(p.cvar, decimals(all))}, mean ${fixed(p.mean, decimals(all))}`;
    const pick = () => choose(p.policy);
    picture.append(
      svg(
        "circle",
        {
          class: `dot best pick${now ? " now" : ""}`,
          id: `point-${p.policy}`,
          cx: x(p.cvar),
          cy: y(p.mean),
          r: now ? 9 : 6,
          tabindex: 0,
          role: "button",
          "aria-pressed": String(now),
          "aria-label": `Show the plan with ${words}`,
          onclick: pick,
          onkeydown: (event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            pick();
          },
        },
        svg("title", {}, words),
      ),
    );
  }
  xAxis(picture, x, HEIGHT, { label: `CVaR: mean of the worst ${percent(raw.tau)}` });
  return { height: HEIGHT + 42, label: `The best mean at every CVaR at tau ${raw.tau}. ${sentence(raw, shown)}` };
}

/** What the point that is picked has, and what one unit more of safety costs there. */
export function sentence(raw, shown) {
  const all = points(raw);
  const p = all.find((point) => point.policy === shown);
  const tail = `the worst ${percent(raw.tau)}`;
  if (!p) return "Pick a point: the page then shows its plan, what it earns and what it does.";
  const has = `Here ${tail} earn ${fixed(p.cvar, decimals(all))} and the mean is ${fixed(p.mean, decimals(all))}.`;
  const i = all.indexOf(p);
  const price =
    i === 0
      ? `No policy earns more there. A little less in ${tail} gains ${fixed(p.price, 2)} of the mean a unit.`
      : `Nearby, a unit more in ${tail} costs ${fixed(all[i - 1].price, 2)} on average.`;
  const drawn =
    p.share < 1
      ? ` One of two plans is drawn at the start of every episode, the first with ${percent(p.share)}; ` +
        "the actions below are those of the likelier one."
      : "";
  return `${has} ${price}${drawn}`;
}

export function efficientTable(raw) {
  const all = points(raw);
  const rows = all.map((p) => [
    fixed(p.cvar, decimals(all)),
    fixed(p.mean, decimals(all)),
    fixed(p.upper, decimals(all)),
    fixed(p.price, 2),
  ]);
  return table(
    [`CVaR at ${percent(raw.tau)}`, "Best mean", "No policy above", "Mean gained by a unit less of CVaR, nearby"],
    rows,
    "The efficient frontier",
  );
}
