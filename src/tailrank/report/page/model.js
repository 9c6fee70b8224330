// The data of the page as objects: what the slider and the choice of a policy select.

import { Curve, Law } from "./law.js";
import { decimalsFor } from "./format.js";

/** All of the data; laws and curves are made when they are first asked for. */
export class Model {
  constructor(data) {
    this.data = data;
    this.levels = data.levels;
    this.problems = data.problems.map((raw) => new Problem(raw));
    this.policies = data.policies.map((raw) => ({
      raw,
      name: raw.name,
      law: raw.law ? new Law(raw.law) : null,
      problem: raw.problem === null ? null : this.problems[raw.problem],
      absent: raw.absent,
      beside: (raw.beside || []).map((other) => ({ name: other.name, law: new Law(other.law) })),
    }));
  }

  /** What is looked at: policy i at slider position `level`. */
  view(i, level) {
    return new View(this, this.policies[Math.min(i, this.policies.length - 1)], level);
  }

  /** The slider position of a tail fraction, or the nearest one. */
  levelOf(tau) {
    let best = 0;
    this.levels.forEach((x, i) => {
      if (Math.abs(x - tau) < Math.abs(this.levels[best] - tau)) best = i;
    });
    return best;
  }
}

class Problem {
  constructor(raw) {
    this.raw = raw;
    this.exact = raw.exact;
    this.absent = raw.absent;
    this.curve = new Curve(raw.curve);
    this.neutralMean = raw.neutral.mean;
    this.neutral = raw.neutral.law ? new Law(raw.neutral.law) : null;
    this.best = raw.best.map((entry) => ({ ...entry, law: new Law(entry.law) }));
  }

  /** The best CVaR at tau, at most the mean of the risk-neutral policy, and the budget that gives it. */
  bestAt(tau) {
    const found = this.curve.best(tau);
    return { budget: found.budget, value: this.exact ? found.value : Math.min(found.value, this.neutralMean) };
  }
}

/** One policy at one tail fraction. */
class View {
  constructor(model, policy, level) {
    Object.assign(this, { model, policy, level });
    this.tau = model.levels[level];
    this.law = policy.law;
    this.problem = policy.problem;
    this.beside = policy.beside;
    this.neutral = policy.problem ? policy.problem.neutral : null;
    this.best = policy.problem ? policy.problem.bestAt(this.tau) : null;
    this.bestPolicy = policy.problem ? policy.problem.best.find((entry) => entry.at.includes(level)) || null : null;
  }

  /** All laws that may be drawn together, whatever the slider says. */
  get laws() {
    const others = this.problem ? this.problem.best.map((entry) => entry.law) : [];
    return [this.law, this.neutral, ...this.beside.map((other) => other.law), ...others].filter(Boolean);
  }

  /** Decimals that suit the spread of the returns. */
  get decimals() {
    const laws = [this.law, this.neutral].filter(Boolean);
    if (!laws.length) return 3;
    const low = Math.min(...laws.map((law) => law.values[0]));
    const high = Math.max(...laws.map((law) => law.quantile(0.999)));
    return decimalsFor(high - low || Math.abs(high));
  }

  /** A certified lower bound on the policy's CVaR, where its law is not exact. */
  get lower() {
    return this.law && this.law.low ? this.law.low[this.level] : null;
  }
}
