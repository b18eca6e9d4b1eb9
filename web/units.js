// Numbers with units, as the command line writes them (pipewright/base/text.cc):
// three significant digits, "12.3 ms", "553 MB", "11.3 %".

const LARGE = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];
const SMALL = [[1, ''], [1e-3, 'm'], [1e-6, 'u'], [1e-9, 'n']];

// Halfway cases go to the even digit, as in C; toPrecision() takes them up.
function precise(number, digits) {
  const [mantissa, exponent] = Math.abs(number).toExponential(60).split('e');
  const all = mantissa.replace('.', '');
  if (!/^50*$/.test(all.slice(digits)) || Number(all[digits - 1]) % 2 === 1) return number.toPrecision(digits);
  const down = Number(`${all.slice(0, digits)}e${Number(exponent) - digits + 1}`);
  return (number < 0 ? -down : down).toPrecision(digits);
}

export function numberText(number, significant = 3) {
  if (!Number.isFinite(number)) return String(number);
  const magnitude = Math.abs(number);
  let digits = significant;
  if (magnitude >= 1 && magnitude < 1e6) digits = Math.max(digits, Math.floor(Math.log10(magnitude)) + 1);
  const plain = precise(number, digits);
  const text = magnitude > 0 && magnitude < 1e-4 ? Number(plain).toExponential(digits - 1) : plain;
  const [mantissa, exponent] = text.split('e');
  const short = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa;
  return exponent === undefined ? short : `${short}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
}

function scaled(number, prefixes, unit, significant) {
  const magnitude = Math.abs(number);
  const [factor, name] = prefixes.find(([least]) => magnitude >= least * 0.9995) || prefixes[prefixes.length - 1];
  return `${numberText(number / factor, significant)} ${name}${unit}`;
}

export const secondsText = (seconds, significant) => (seconds === 0 ? '0 s' : scaled(seconds, SMALL, 's', significant));
export const bytesText = (bytes, significant) => scaled(bytes, LARGE, 'B', significant);
export const rateText = (rate) => scaled(rate, LARGE, 'B/s');
export function percentText(share, significant = 3) {
  const parts = 10 ** (significant - 2);  // decimal places: one, and one more with every digit
  return `${numberText(Math.round(share * (100 * parts)) / parts, significant)} %`;
}
export const countText = (count) => count.toLocaleString('en-US');

// Round numbers between `from` and `to`, about `count` of them.
export function niceTicks(from, to, count) {
  const raw = (to - from) / Math.max(1, count);
  if (!(raw > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

// With as many digits as it takes to tell neighbours apart: on an axis from
// 2.30 to 2.31, three would name several lines alike.
export function distinctTexts(values, text) {
  for (let significant = 3; ; ++significant) {
    const texts = values.map((value) => text(value, significant));
    if (new Set(texts).size === new Set(values).size || significant === 12) return texts;
  }
}
