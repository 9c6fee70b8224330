// What an episode has earned and what is left of its budget, step by step.

import { svg, table } from "./dom.js";
import { fixed, percent, short } from "./format.js";
import { labels, path, xAxis, yAxis, yRoom } from "./plot.js";
import { linear, padded } from "./scales.js";

const HEIGHT = 200;

/** What was earned before each step, discounted as the return is. */
function earned(episode, discount) {
  const total = [0];
  episode.rewards.forEach((r, i) => total.push(total[i] + r * discount ** i));
  return total;
}

/** Which episode it is. */
export function moneyWords(page) {
  const { played, seed, discount } = page.policy().raw.episodes;
  const { place, return: total } = page.episode();
  const named = { 0: "the worst", 0.5: "the median", 1: "the best" };
  const rank = named[place] || `${percent(place)} from the bottom`;
  const sums = discount < 1 ? " Sums are discounted, the rewards in the table are not." : "";
  const earns = fixed(total, page.view().decimals);
  return `Of ${played} episodes played with seed ${seed}, this one is ${rank}: it earns ${earns}.${sums}`;
}

/** Draw both lines with the present step. */
export function drawBudget(picture, width, page) {
  const [episode, t, { discount, memory }] = [page.episode(), page.store.t, page.policy().raw.episodes];
  const last = episode.states.length - 1;
  const total = earned(episode, discount);
  const lines = [{ name: "earned", kind: "mine", y: total }];
  if (memory === "budget") lines.push({ name: "left to earn", kind: "best", y: episode.memory });
  const all = lines.flatMap((line) => line.y).concat(0);
  const [low, high] = padded(Math.min(...all), Math.max(...all), 0.08);
  const left = yRoom([low, high]);
  const x = linear(0, Math.max(last, 1), left, width - 14);
  const y = linear(low, high, HEIGHT, 30);
  yAxis(picture, y, left, { to: width - 14 });
  picture.append(svg("line", { class: "zero", x1: left, x2: width - 14, y1: y(0), y2: y(0) }));
  picture.append(svg("line", { class: "now", x1: x(t), x2: x(t), y1: 24, y2: HEIGHT }));
  for (const line of lines) {
    const points = line.y.map((v, i) => [x(i), y(v)]);
    picture.append(
      svg("path", { class: `line ${line.kind} later`, d: path(points, true) }),
      svg("path", { class: `line ${line.kind}`, d: path(points.slice(0, t + 1), true) }),
    );
    picture.append(svg("circle", { class: `dot ${line.kind}`, cx: x(t), cy: y(line.y[t]), r: 4.5 }));
  }
  labels(
    picture,
    lines.map((line) => ({ x: x(t), text: `${line.name} ${short(line.y[t])}`, kind: line.kind })),
    { from: left, to: width - 14, y: 12 },
  );
  xAxis(picture, x, HEIGHT, { label: "step", whole: true });
  const rest = memory === "budget" ? ` and has ${short(episode.memory[t])} left` : "";
  return {
    height: HEIGHT + 42,
    label: `At step ${t} the episode has earned ${short(total[t])}${rest}.`,
  };
}

/** The episode as a table. */
export function episodeTable(page) {
  const episode = page.episode();
  const { raw } = page.policy();
  const rows = episode.states.map((s, i) => [
    String(i),
    raw.labels[s] || String(s),
    i < episode.actions.length ? (raw.actions[episode.actions[i]] ?? String(episode.actions[i])) : "\u2013",
    i < episode.rewards.length ? short(episode.rewards[i]) : "\u2013",
    ...(episode.memory ? [short(episode.memory[i])] : []),
  ]);
  const memory = episode.memory ? [raw.episodes.memory === "budget" ? "Budget left" : "Level"] : [];
  return table(["Step", "State", "Action", "Reward", ...memory], rows, "The episode, step by step");
}
