// Laws of the return, and the curve over budgets: the same numbers as tailrank.risk and planning/exact/curve.py.
//
// tau in (0, 1] is the fraction of the lower tail; CVaR = c - E(c - X)^+ / tau at c = VaR.

const SLACK = 1e-12;

/** Floats of the data: numbers as they are, or the bytes of float64 in base64. */
export function unpack(packed) {
  if (Array.isArray(packed)) return Float64Array.from(packed, (x) => (x === null ? NaN : x));
  const text = atob(packed.f8);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  return Float64Array.from({ length: text.length / 8 }, (_, i) => view.getFloat64(8 * i, true));
}

/** A sum that loses no digits (Neumaier). */
export function sum(count, term) {
  let total = 0;
  let lost = 0;
  for (let i = 0; i < count; i++) {
    const x = term(i);
    const next = total + x;
    lost += Math.abs(total) >= Math.abs(x) ? total - next + x : x - next + total;
    total = next;
  }
  return total + lost;
}

/** A finite law: values increasing, probabilities positive. */
export class Law {
  constructor(raw) {
    this.values = unpack(raw.values);
    this.probs = unpack(raw.probs);
    this.size = this.values.length;
    this.method = raw.method || "exact";
    this.episodes = raw.episodes || 0;
    this.interval = raw.interval || null;
    this.atoms = raw.atoms;
    this.merged = raw.merged;
    this.low = raw.low ? unpack(raw.low) : null;
    this.cumulative = new Float64Array(this.size);
    let total = 0;
    for (let i = 0; i < this.size; i++) this.cumulative[i] = total += this.probs[i];
    this.cumulative[this.size - 1] = 1;
    const first = this.values[0];
    this.mean = first + sum(this.size, (i) => this.probs[i] * (this.values[i] - first));
  }

  /** VaR: the least value whose cumulative probability reaches tau. */
  quantile(tau) {
    const level = tau - Math.min(SLACK, 0.5 * tau);
    let low = 0;
    let high = this.size - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.cumulative[middle] < level) low = middle + 1;
      else high = middle;
    }
    return this.values[low];
  }

  /** E(c - X)^+. */
  shortfall(c) {
    return sum(this.size, (i) => this.probs[i] * Math.max(c - this.values[i], 0));
  }

  /** The mean of the worst tau of the returns. */
  cvar(tau) {
    const c = this.quantile(tau);
    return c - this.shortfall(c) / tau;
  }

  /** How much of each value lies in the worst tau. */
  tail(tau) {
    const shares = new Float64Array(this.size);
    let before = 0;
    for (let i = 0; i < this.size; i++) {
      shares[i] = Math.min(Math.max(tau - before, 0), this.probs[i]);
      before += this.probs[i];
    }
    return shares;
  }

  /** Half of an approximate 95% interval of the CVaR of a sample; 0 for a law that is not one. */
  error(tau) {
    if (!this.episodes) return 0;
    const c = this.quantile(tau);
    const mean = this.shortfall(c);
    const square = sum(this.size, (i) => this.probs[i] * Math.max(c - this.values[i], 0) ** 2);
    return (1.96 * Math.sqrt(Math.max(square - mean * mean, 0) / this.episodes)) / tau;
  }
}

/** Points (c, V(c)); the best CVaR at tau is the maximum of c - V(c) / tau. */
export class Curve {
  constructor(raw) {
    this.budget = unpack(raw.budget);
    this.shortfall = unpack(raw.shortfall);
    this.size = this.budget.length;
    // Bounds found with different care may jump; V never falls, so the largest so far holds as well.
    let most = 0;
    this.rising = this.shortfall.map((v) => (most = Math.max(most, v)));
  }

  objective(i, tau) {
    return this.budget[i] - this.shortfall[i] / tau;
  }

  /** The objective without jumps, for pictures. */
  drawn(i, tau) {
    return this.budget[i] - this.rising[i] / tau;
  }

  /** The smallest budget that attains the maximum, and the maximum. */
  best(tau) {
    let top = -Infinity;
    for (let i = 0; i < this.size; i++) top = Math.max(top, this.objective(i, tau));
    const slack = 1e-11 * (this.budget[this.size - 1] - this.budget[0]);
    let place = 0;
    while (this.objective(place, tau) < top - slack) place++;
    return { budget: this.budget[place], value: top };
  }
}
