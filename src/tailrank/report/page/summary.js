// The first screen: two sentences, what must be known first, and the numbers side by side.

import { byId, html, missing, numeral } from "./dom.js";
import { fixed, percent, tailWords } from "./format.js";

/** Show the sentences and the numbers of a view. */
export function showSummary(view) {
  byId("numbers").replaceChildren(numbers(view));
  byId("second").replaceChildren(...second(view));
  say(lead(view));
}

let timer = 0;
let first = true;

/** The sentence is seen at once; screen readers hear it when the slider rests. */
function say(parts) {
  const place = byId("lead");
  place.setAttribute("aria-busy", "true");
  place.replaceChildren(...parts);
  clearTimeout(timer);
  timer = setTimeout(() => place.setAttribute("aria-busy", "false"), first ? 0 : 400);
  first = false;
}

function lead(view) {
  const { tau, law, neutral, decimals, policy } = view;
  if (!law) return [policy.absent.law || "There is no policy yet."];
  const mine = law.cvar(tau);
  const parts =
    tau === 1
      ? ["Over all episodes this policy earns "]
      : ["In its ", `worst ${percent(tau)} of episodes`, " this policy earns "];
  parts.push(numeral(fixed(mine, decimals), mine, "lead-cvar"), " on average");
  const given = law.interval && law.interval.tau === tau ? law.interval : null;
  if (given) parts.push(` (with 95% confidence ${fixed(given.low, decimals)} to ${fixed(given.high, decimals)})`);
  else if (law.episodes) parts.push(` (give or take ${fixed(law.error(tau), decimals)})`);
  if (!neutral && view.beside.length) {
    const told = view.beside.flatMap((other, i) => {
      const value = other.law.cvar(tau);
      const name = other.name[0].toLowerCase() + other.name.slice(1);
      const verb = name.endsWith("s") ? "earn" : "earns";
      const before = i ? ", " : "; ";
      const words = `${before}${name.startsWith("plan") ? `the ${name}` : name} ${verb} `;
      return [words, numeral(fixed(value, decimals), value, `lead-beside${i}`)];
    });
    return [...parts, ...told, "."];
  }
  if (!neutral) return [...parts, "."];
  return [
    ...parts,
    "; the risk-neutral policy earns ",
    numeral(fixed(neutral.cvar(tau), decimals), neutral.cvar(tau), "lead-neutral"),
    ".",
  ];
}

function second(view) {
  const { tau, law, neutral, best, problem, decimals } = view;
  const parts = [];
  if (law && tau < 1) {
    parts.push("Over all episodes it earns ", numeral(fixed(law.mean, decimals), law.mean, "mean"));
    if (neutral)
      parts.push(", the risk-neutral policy ", numeral(fixed(neutral.mean, decimals), neutral.mean, "neutral-mean"));
    parts.push(". ");
  }
  if (best) {
    const most = problem.exact ? "The best that any policy earns in " : "No policy earns more in ";
    parts.push(
      most,
      tailWords(tau),
      problem.exact ? " is " : " than ",
      numeral(fixed(best.value, decimals), best.value, "best"),
      ".",
    );
  }
  if (law && law.method === "sample") {
    const others = view.beside.length ? ` (of the others ${view.beside[0].law.episodes})` : "";
    parts.push(` All numbers are estimates from ${law.episodes} episodes${others}.`);
  }
  return parts;
}

/** CVaR, VaR and mean of this policy, of the best one at this level and of the risk-neutral one. */
function numbers(view) {
  const { tau, law, neutral, best, bestPolicy, problem, decimals } = view;
  if (!law && !best) return missing("There are no numbers to show yet.");
  const worst = `the worst ${percent(tau)}`;
  const cell = (name, value) => {
    if (value === null) return html("td", { class: "none" }, "\u2013");
    return html("td", {}, numeral(fixed(value, decimals), value, name));
  };
  const row = (words, mine, others) =>
    html("tr", {}, html("th", { scope: "row" }, words), mine, ...others);
  const also = (name, of) => view.beside.map((other, i) => cell(`beside${i}-${name}`, of(other.law)));
  const known = (cells) => (problem ? cells : []);
  const rows = [
    row(tau === 1 ? "CVaR: mean of all episodes" : `CVaR: mean of ${worst}`, mineCvar(view, cell), [
      ...known([cell("best-cvar", best && best.value), cell("neutral-cvar", neutral && neutral.cvar(tau))]),
      ...also("cvar", (other) => other.cvar(tau)),
    ]),
    row(tau === 1 ? "VaR: the best of them" : `VaR: the best of ${worst}`, cell("mine-var", law && law.quantile(tau)), [
      ...known([
        cell("best-var", bestPolicy && bestPolicy.law.quantile(tau)),
        cell("neutral-var", neutral && neutral.quantile(tau)),
      ]),
      ...also("var", (other) => other.quantile(tau)),
    ]),
    row("Mean of all episodes", cell("mine-mean", law && law.mean), [
      ...known([
        cell("best-mean", bestPolicy && bestPolicy.mean),
        cell("neutral-mean-cell", problem && problem.neutralMean),
      ]),
      ...also("mean", (other) => other.mean),
    ]),
  ];
  const bestName = problem && !problem.exact ? "Best at this level, at most" : "Best at this level";
  const others = view.beside.map((other) => other.name);
  const names = ["This policy", ...(problem ? [bestName, "Risk-neutral"] : []), ...others];
  const head = html("tr", {}, html("td", {}), ...names.map((name) => html("th", { scope: "col" }, name)));
  const caption = html("caption", { class: "quiet" }, `Numbers for ${tailWords(tau)}`);
  return html("table", { class: "numbers" }, caption, html("thead", {}, head), html("tbody", {}, ...rows));
}

/** One number, or two bounds where the law is not exact and they look different. */
function mineCvar({ law, tau, lower, decimals }, cell) {
  if (!law) return cell("mine-cvar", null);
  const value = law.cvar(tau);
  if (lower === null || fixed(lower, decimals) === fixed(value, decimals)) return cell("mine-cvar", value);
  const [low, high] = [
    numeral(fixed(lower, decimals), lower, "mine-low"),
    numeral(fixed(value, decimals), value, "mine-cvar"),
  ];
  return html("td", { class: "range" }, low, " to ", high);
}

/** Warnings above the numbers. */
export function showWarnings(data) {
  const place = byId("warnings");
  if (!data.warnings.length) return place.replaceChildren();
  const items = data.warnings.slice(0, 8).map((line) => html("li", {}, line));
  const more = data.warnings.length > 8 ? [html("li", {}, `and ${data.warnings.length - 8} more`)] : [];
  return place.replaceChildren(
    html(
      "div",
      { class: "notice", role: "note" },
      html("b", {}, "Before you trust the numbers"),
      html("ul", {}, ...items, ...more),
    ),
  );
}
