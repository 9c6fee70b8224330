// Numbers and tail fractions as text.

const MINUS = "\u2212";

/** Decimals for numbers that lie in a range of this width. */
export function decimalsFor(width) {
  if (!(width > 0)) return 3;
  if (width >= 1e4) return 0;
  if (width >= 1e3) return 1;
  return Math.min(8, Math.max(2, 3 - Math.floor(Math.log10(width))));
}

/** A number with so many decimals and a real minus sign. */
export function fixed(x, decimals) {
  if (x === null || x === undefined || Number.isNaN(x)) return "\u2013";
  const text = Math.abs(x) >= 1e9 ? x.toExponential(3) : x.toFixed(decimals);
  return (/^-0(\.0*)?$/.test(text) ? text.slice(1) : text).replace("-", MINUS);
}

/** A number as short as it can be with at most so many digits. */
export function short(x, digits = 6) {
  if (x === null || x === undefined || Number.isNaN(x)) return "\u2013";
  const size = Math.abs(x);
  const text =
    size !== 0 && (size >= 1e7 || size < 1e-4)
      ? x.toExponential(Math.min(digits, 3) - 1)
      : String(Number(x.toPrecision(digits)));
  return text.replace("-", MINUS).replace("e+", "e");
}

/** A share as a percentage. */
export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.01) return "< 0.01%";
  return `${Number(value.toPrecision(value >= 99.5 ? 4 : 3))}%`;
}

/** What a tail fraction means: "the worst 10% of episodes". */
export function tailWords(tau) {
  return tau === 1 ? "all episodes" : `the worst ${percent(tau)} of episodes`;
}
