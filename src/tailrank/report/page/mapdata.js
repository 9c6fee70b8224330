// The numbers of maps: which cell says what, for the step, budget and slice that are chosen.

import { unpack } from "./law.js";

/** Small numbers that were packed as bytes. */
function small(packed) {
  const [kind, text] = Object.entries(packed)[0];
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  if (kind === "u1") return bytes;
  if (kind === "u2") return Uint16Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true));
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

/** The maps of a policy with what is chosen: step, budget and slice, by their places. */
export class Maps {
  constructor(raw) {
    this.raw = raw;
    this.across = unpack(raw.across);
    this.up = unpack(raw.up);
    this.actions = small(raw.actions);
    this.values = raw.values ? small(raw.values) : null;
    this.met = small(raw.met);
    this.slices = raw.slices ? raw.slices.length : 1;
    this.cells = this.across.length * this.up.length;
    this.budgets = raw.steps.map((_, i) => (raw.budgets ? raw.budgets[i].length : 1));
    this.step = 0;
    this.slice = Math.floor(this.slices / 2);
    this.budget = Math.floor(this.budgets[0] / 2);
  }

  /** Where the map of a budget of the step that is chosen begins in the arrays. */
  begin(budget = this.budget, slice = this.slice) {
    let maps = 0;
    for (let i = 0; i < this.step; i++) maps += this.budgets[i];
    return ((maps + budget) * this.slices + slice) * this.cells;
  }

  /** The number of the cell in row r and column c, and whether something like it was met. */
  at(r, c) {
    return r * this.across.length + c;
  }

  isMet(cell) {
    return this.met[this.slice * this.cells + cell] === 1;
  }

  /** The least and the largest shortfall at this step and budget, in any slice. */
  range() {
    const from = this.begin(this.budget, 0);
    const some = this.values.subarray(from, from + this.slices * this.cells);
    return some.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
  }

  name(i) {
    return `observation[${this.raw.features[i]}]`;
  }
}

/** Where cells begin and end: half-way between their values. */
export function edges(values) {
  if (values.length === 1) return [values[0] - 0.5, values[0] + 0.5];
  const middle = Array.from(values.slice(1), (v, i) => (v + values[i]) / 2);
  return [2 * values[0] - middle[0], ...middle, 2 * values.at(-1) - middle.at(-1)];
}
