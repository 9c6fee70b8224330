// Puts the page together: the store of what is chosen, the controls, and the sections that show it.

import { showAbout } from "./about.js";
import { byId, html } from "./dom.js";
import { percent, tailWords } from "./format.js";
import { startLive } from "./live.js";
import { Model } from "./model.js";
import { pick } from "./player.js";
import { buildActions, buildEpisodes, buildLearning, buildReturns, buildTradeoff, updateLearning } from "./sections.js";
import { showSummary, showWarnings } from "./summary.js";

const data = JSON.parse(byId("data").textContent);
let model = new Model(data);
let seen = null;

/** What is chosen; `set` draws what it changes. */
const store = {
  level: model.levelOf(data.tau),
  policy: 0,
  step: 0,
  choice: "tail",
  t: 0,
  set(change) {
    Object.assign(this, change);
    if ("level" in change && this.choice === "tail") this.t = 0;
    // The picture of the policy follows the player.
    if ("t" in change) this.step = Math.min(this.t, page.steps() - 1);
    draw("t" in change ? [...Object.keys(change), "step"] : Object.keys(change));
  },
};

const page = {
  store,
  parts: [], // each {of, draw}: drawn anew when one of the names in `of` changes
  data: () => model.data,
  view() {
    if (!seen || seen.model !== model || seen.level !== store.level || seen.policy !== model.policies[store.policy]) {
      seen = model.view(store.policy, store.level);
    }
    return seen;
  },
  policy: () => page.view().policy,
  /** Show another policy. */
  choose(i) {
    Object.assign(store, { policy: i, step: 0, t: 0 });
    byId("policy").value = i;
    build();
    // The point that was picked was drawn anew: who came by keyboard stays on it.
    requestAnimationFrame(() => byId(`point-${i}`)?.focus({ preventScroll: true }));
  },
  episode: () => pick(page.policy().raw.episodes, store.choice, page.view().tau),
  steps: () => (page.policy().raw.table ? page.policy().raw.table.steps.length : 1),
  horizon: () => (page.policy().raw.table ? page.policy().raw.table.horizon : page.episode().states.length - 1),
};

function draw(changed) {
  const tau = model.levels[store.level];
  const slider = byId("tau");
  slider.value = store.level;
  slider.setAttribute("aria-valuetext", `${tailWords(tau)}, tau ${tau}`);
  byId("tau-words").textContent = tailWords(tau);
  const parts = page.parts.filter((part) => part.of.some((name) => changed.includes(name)));
  for (const part of parts)
    if (part.atOnce) part.draw();
    else waiting.add(part);
  // Pictures are drawn once a frame, however fast the slider moves; the numbers at once.
  if (frame === 0) frame = requestAnimationFrame(drawWaiting);
}

const waiting = new Set();
let frame = 0;

function drawWaiting() {
  frame = 0;
  const parts = [...waiting];
  waiting.clear();
  for (const part of parts) if (page.parts.includes(part)) part.draw();
}

/** Build all sections for the model and the policy that is chosen. */
function build() {
  page.parts.length = 0;
  page.parts.push({ of: ["level", "policy"], atOnce: true, draw: () => showSummary(page.view()) });
  showWarnings(model.data);
  buildReturns(page);
  buildTradeoff(page);
  buildLearning(page);
  buildActions(page);
  buildEpisodes(page);
  showAbout(byId("about").querySelector(".body"), model.data);
  draw(["level", "policy", "step", "choice", "t"]);
}

/** The slider with its marks, and the choice of a policy, for the model. */
function controls() {
  const last = model.levels.length - 1;
  byId("tau").max = last;
  const marks = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1].map((tau) => {
    const mark = html("span", {}, percent(tau));
    mark.style.left = `${(100 * model.levelOf(tau)) / last}%`;
    return mark;
  });
  byId("tau-marks").replaceChildren(...marks);
  const select = byId("policy");
  select.replaceChildren(...model.policies.map((policy, i) => html("option", { value: i }, policy.name)));
  select.value = store.policy;
  byId("choose").hidden = model.policies.length < 2;
}

function theme() {
  const root = document.documentElement;
  const button = byId("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  name();
}

function header() {
  byId("title").textContent = model.data.title;
  byId("kicker").textContent = model.data.about_policy;
  byId("footer").textContent = `Made by tailrank ${model.data.version}. Everything on this page is in this file.`;
}

/** Show other data, at another level or at the one that is chosen; what has not changed stays as it is. */
function show(fresh, tau, held) {
  if (tau === null && (held || fresh.mark === model.data.mark)) {
    model.data = { ...model.data, learning: fresh.learning, warnings: fresh.warnings };
    showWarnings(fresh);
    updateLearning(page);
    return;
  }
  const level = tau === null ? model.levels[store.level] : tau;
  model = new Model(fresh);
  Object.assign(store, {
    level: model.levelOf(level),
    policy: tau === null ? Math.min(store.policy, model.policies.length - 1) : 0,
    step: 0,
    t: 0,
  });
  header();
  controls();
  build();
}

header();
theme();
controls();
byId("tau").addEventListener("input", (event) => store.set({ level: Number(event.target.value) }));
byId("policy").addEventListener("change", (event) => {
  Object.assign(store, { policy: Number(event.target.value), step: 0, t: 0 });
  build();
});
build();
if (data.live) startLive(data.live, show, () => model.levels[store.level]);
