// How it was made: configuration, versions, seeds, notes.

import { html } from "./dom.js";

/** The tables of facts and the notes. */
export function showAbout(place, data) {
  const blocks = data.about.map(({ name, rows }) => {
    const lines = rows.map(([key, value]) => html("div", {}, html("dt", {}, key), html("dd", {}, value)));
    return html("div", { class: "facts" }, html("h3", {}, name), html("dl", {}, ...lines));
  });
  const notes = [...data.notes, ...data.problems.flatMap((problem) => problem.notes)];
  const unique = [...new Set(notes)];
  const list = unique.length
    ? [
        html(
          "div",
          { class: "facts" },
          html("h3", {}, "Notes"),
          html("ul", {}, ...unique.map((line) => html("li", {}, line))),
        ),
      ]
    : [];
  place.replaceChildren(html("div", { class: "columns" }, ...blocks, ...list), reading());
}

function reading() {
  const terms = [
    ["tau", "The fraction of episodes that count, worst first: 0.1 is the worst tenth, 1 is all of them."],
    ["CVaR", "The mean return of the worst tau of episodes. The larger, the safer."],
    ["VaR", "The best return among the worst tau of episodes."],
    ["Risk-neutral", "The policy with the best mean, whatever its bad episodes cost."],
    ["Budget", "What the policy still wants to earn. Rewards are taken off it, and the policy plays by what is left."],
  ];
  const lines = terms.map(([term, words]) => html("div", {}, html("dt", {}, term), html("dd", {}, words)));
  return html("details", { class: "glossary" }, html("summary", {}, "What the words mean"), html("dl", {}, ...lines));
}
