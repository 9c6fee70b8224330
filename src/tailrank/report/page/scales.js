// Scales and ticks.

/** Numbers from [d0, d1] to [r0, r1]. */
export function linear(d0, d1, r0, r1) {
  const width = d1 - d0 || 1;
  const scale = (x) => r0 + ((x - d0) / width) * (r1 - r0);
  scale.domain = [d0, d1];
  scale.range = [r0, r1];
  return scale;
}

/** A domain with some room at its ends, never empty. */
export function padded(low, high, share = 0.05) {
  if (!(high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)))) {
    const room = Math.max(Math.abs(low) * 0.1, 0.5);
    return [low - room, high + room];
  }
  return [low - share * (high - low), high + share * (high - low)];
}

/** Round numbers (or whole ones) in [low, high], about `count` of them. */
export function ticks(low, high, count, whole = false) {
  const raw = (high - low) / Math.max(count, 1);
  if (!(raw > 0) || !Number.isFinite(raw)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const steps = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((m) => m * power);
  const step = Math.max(
    steps.find((s) => s >= raw * 0.7),
    whole ? 1 : 0,
  );
  const decimals = Math.max(0, 1 - Math.floor(Math.log10(step)));
  const found = [];
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.min(Math.floor(high / step + 1e-9), first + 50);
  for (let i = 0; first + i <= last && i <= 50; i++)
    found.push(Number(((first + i) * step).toFixed(Math.min(decimals, 100))));
  return found;
}

/** The distance between neighbours if all values lie on a lattice, else 0. */
export function lattice(values) {
  let gap = Infinity;
  for (let i = 1; i < values.length; i++) gap = Math.min(gap, values[i] - values[i - 1]);
  if (!Number.isFinite(gap) || gap <= 0) return 0;
  const off = values.some((x) => {
    const steps = (x - values[0]) / gap;
    return Math.abs(steps - Math.round(steps)) > 1e-4;
  });
  return off ? 0 : gap;
}
