// Bars for laws of the return: which range is drawn, where the bars stand, how high they are.

import { lattice } from "./scales.js";

/** The drawn range, without extremes so rare that no position of the slider counts them, if they take much room. */
export function span(laws) {
  const low = Math.min(...laws.map((law) => law.values[0]));
  const high = Math.max(...laws.map((law) => law.values[law.size - 1]));
  const usual = [
    Math.min(...laws.map((law) => law.quantile(1e-5))),
    Math.max(...laws.map((law) => law.quantile(0.9995))),
  ];
  const much = (room) => room > 0.2 * (high - low);
  return [much(usual[0] - low) ? usual[0] : low, much(high - usual[1]) ? usual[1] : high];
}

/** Bars for laws in [low, high]: one for each value where they are few, else ranges of equal width. */
export function bars(laws, low, high, most) {
  const values = [...new Set(laws.flatMap((law) => [...law.values]))]
    .filter((x) => x >= low && x <= high)
    .sort((a, b) => a - b);
  const width = high - low || 1;
  const apart = values.filter((x, i) => !i || x - values[i - 1] > 1e-9 * width);
  const gap = lattice(apart);
  if (apart.length <= most) {
    let nearest = width;
    for (let i = 1; i < apart.length; i++) nearest = Math.min(nearest, apart[i] - apart[i - 1]);
    return { centre: apart, width: nearest, single: true, place: (x) => closest(apart, x) };
  }
  const size = gap ? gap * Math.ceil(width / most / gap) : width / most;
  const from = gap ? low - gap / 2 : low;
  const count = Math.ceil((high - from) / size + 1e-9);
  const centre = Array.from({ length: count }, (_, i) => from + (i + 0.5) * size);
  return {
    centre,
    width: size,
    single: false,
    place: (x) => Math.min(Math.floor((x - from) / size + 1e-9), count - 1),
  };
}

function closest(sorted, x) {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - sorted[low - 1] < sorted[low] - x ? low - 1 : low;
}

export function heights(law, tau, grid, [low, high]) {
  const worst = new Float64Array(grid.centre.length);
  const rest = new Float64Array(grid.centre.length);
  const tail = law.tail(tau);
  const outside = [0, 0];
  for (let i = 0; i < law.size; i++) {
    if (law.values[i] < low || law.values[i] > high) {
      outside[law.values[i] < low ? 0 : 1] += law.probs[i];
      continue;
    }
    const k = grid.place(law.values[i]);
    worst[k] += tail[i];
    rest[k] += law.probs[i] - tail[i];
  }
  return { worst, rest, outside };
}
