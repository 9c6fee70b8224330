// A page that a server keeps up to date: asks for news, and for a new solution at another level.

import { byId } from "./dom.js";

const PAUSE = 2000;

/**
 * Ask for news until the page is left. `show(data, tau)` gets a new solution at `tau`; `show(data, null, held)` gets
 * news, of which only the curves are wanted while a solution is held.
 */
export function startLive(options, show, level) {
  const text = byId("live-text");
  const button = byId("resolve");
  byId("live").hidden = false;
  button.hidden = !options.solve;
  let mark = "";
  let held = false;

  async function ask() {
    try {
      const answer = await fetch("/data", { headers: { "If-None-Match": mark }, cache: "no-store" });
      if (answer.status === 200) {
        const data = await answer.json();
        mark = answer.headers.get("ETag");
        show(data, null, held);
        if (!held) text.textContent = data.live.running ? "The run goes on; this page follows it." : "";
      }
    } catch {
      text.textContent = "The server has stopped; the page stays as it is.";
    }
    setTimeout(ask, PAUSE);
  }

  async function solve() {
    const tau = level();
    button.disabled = true;
    text.textContent = `Solving at tau = ${tau} \u2026`;
    try {
      const answer = await fetch("/solve", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ tau }),
      });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      held = true;
      show(found, tau, false);
      text.textContent = `Solved at tau = ${tau}.`;
    } catch (error) {
      text.textContent = `Not solved: ${error.message}`;
    }
    button.disabled = false;
  }

  button.addEventListener("click", solve);
  if (options.poll) ask();
}
