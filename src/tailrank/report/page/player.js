// The episode player: an episode of the worst tail, the median or the best one, a step at a time.

import { byId, html, missing } from "./dom.js";
import { drawDomain } from "./domain.js";
import { short } from "./format.js";
import { drawBudget, episodeTable, moneyWords } from "./money.js";
import { figure } from "./plot.js";

const CHOICES = [
  { name: "tail", text: "in the worst tail" },
  { name: "worst", text: "the worst" },
  { name: "median", text: "the median" },
  { name: "best", text: "the best" },
];

/** The episode for a choice: the one whose place is nearest to the wanted one. */
export function pick(episodes, choice, tau) {
  const wanted = { tail: Math.min(tau, 1) / 2, worst: 0, median: 0.5, best: 1 }[choice];
  return episodes.kept.reduce((a, b) => (Math.abs(b.place - wanted) < Math.abs(a.place - wanted) ? b : a));
}

/** Build the player in `host`; returns a function that shows the state of the store. */
export function mountPlayer(host, page) {
  const { store } = page;
  const radios = CHOICES.map(({ name, text }) =>
    html(
      "label",
      {},
      html("input", { type: "radio", name: "episode", value: name, onchange: () => store.set({ choice: name, t: 0 }) }),
      text,
    ),
  );
  const choose = html("fieldset", { class: "choice" }, html("legend", {}, "Episode"), ...radios);
  const go = (change) => () => {
    stop();
    store.set({ t: Math.min(Math.max(change(store.t), 0), page.episode().states.length - 1) });
  };
  const button = (text, change) => html("button", { type: "button", onclick: go(change) }, text);
  const play = html("button", { type: "button", onclick: () => (timer ? stop() : start()) }, "Play");
  const range = html("input", {
    type: "range",
    id: "t",
    min: 0,
    max: 1,
    step: 1,
    value: 0,
    oninput: () => (stop(), store.set({ t: Number(range.value) })),
  });
  const controls = html(
    "div",
    { class: "controls" },
    button("First", () => 0),
    button("Back", (t) => t - 1),
    play,
    button("Next", (t) => t + 1),
    button("Last", () => Infinity),
    html("label", { for: "t" }, "Step"),
    range,
  );
  const said = html("p", { class: "said", "aria-live": "polite", id: "said" });
  host.append(choose, controls, said);
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  };
  const start = () => {
    if (store.t >= page.episode().states.length - 1) store.set({ t: 0 });
    timer = setInterval(
      () => (store.t < page.episode().states.length - 1 ? store.set({ t: store.t + 1 }) : stop()),
      700,
    );
    play.textContent = "Pause";
  };
  const known = Boolean(page.policy().raw.domain);
  const pictures = html("div", { class: known ? "pair" : "pair one" });
  host.append(pictures);
  if (!known) host.append(missing(`No picture of the way: ${page.policy().absent.domain}`));
  const drawWay = !known
    ? () => {}
    : figure(pictures, {
        title: "Where it goes",
        caption: () => wayWords(page),
        draw: (picture, width) => drawDomain(picture, width, page.policy(), page.episode(), store.t),
      });
  const drawMoney = figure(pictures, {
    title: "What is earned and what is left to earn",
    caption: () => moneyWords(page),
    draw: (picture, width) => drawBudget(picture, width, page),
    rows: () => episodeTable(page),
  });
  return () => {
    const episode = page.episode();
    const last = episode.states.length - 1;
    radios.forEach((label) => (label.firstChild.checked = label.firstChild.value === store.choice));
    range.max = last;
    range.value = store.t;
    range.setAttribute("aria-valuetext", `step ${store.t} of ${last}`);
    said.replaceChildren(...sentence(page, episode, store.t));
    drawWay();
    drawMoney();
    byId("said").classList.toggle("over", store.t === last);
  };
}

function sentence(page, episode, t) {
  const { raw } = page.policy();
  const name = (s) => raw.labels[s] || String(s);
  const memory = raw.episodes.memory === "budget" ? "budget left" : "level";
  const left = episode.memory ? `, ${memory} ${short(episode.memory[t])}` : "";
  const bold = (text) => html("b", {}, text);
  if (t === episode.states.length - 1) {
    const quiet = t < page.horizon() ? `; nothing more happens until step ${page.horizon()}` : "";
    return [
      `After ${t} steps: state `,
      bold(name(episode.states[t])),
      `. The episode has earned `,
      bold(short(episode.return)),
      `${left}${quiet}.`,
    ];
  }
  return [
    `Step ${t} of ${page.horizon()}: state `,
    bold(name(episode.states[t])),
    left,
    `. It plays `,
    bold(raw.actions[episode.actions[t]] ?? String(episode.actions[t])),
    ` and earns `,
    bold(short(episode.rewards[t])),
    ".",
  ];
}

function wayWords(page) {
  const { kind } = page.policy().raw.domain;
  if (kind === "grid")
    return "Arrows: what the policy plays in each cell at this step with this budget left. Line: the way so far.";
  return "Faint: moves that are possible. Wide: moves that the policy's episodes make. Line: this episode so far.";
}
