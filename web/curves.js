// Lines over steps: small charts with axes, one unit each.

import {drawn, make} from './elements.js';
import {hideTooltip, showTooltip} from './panel.js';
import {countText, niceTicks, numberText} from './units.js';

const CURVE_LEFT = 54, CURVE_WIDTH = 420, CURVE_HIGH = 150, CURVE_FOOT = 20;

function rangeOf(values) {
  const finite = values.filter((value) => value !== null && Number.isFinite(value));
  if (finite.length === 0) return [0, 1];
  const low = finite.reduce((a, b) => Math.min(a, b)), high = finite.reduce((a, b) => Math.max(a, b));
  const space = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 ? Math.max(0, low - space) : low - space, high + space];
}

// `lines`: {name, colour, steps, values, dots}; a null is a gap.
export function curveChart(id, title, lines, text = numberText) {
  const steps = lines.flatMap((line) => line.steps);
  const from = steps.reduce((a, b) => Math.min(a, b), Infinity), to = steps.reduce((a, b) => Math.max(a, b), -Infinity);
  const [low, high] = rangeOf(lines.flatMap((line) => line.values));
  const x = (step) => CURVE_LEFT + ((step - from) / Math.max(1, to - from)) * (CURVE_WIDTH - CURVE_LEFT - 8);
  const y = (value) => 6 + (1 - (value - low) / (high - low)) * (CURVE_HIGH - CURVE_FOOT - 6);
  const svg = drawn('svg', {viewBox: `0 0 ${CURVE_WIDTH} ${CURVE_HIGH}`, class: 'curve', role: 'img', 'aria-label': title});
  for (const value of niceTicks(low, high, 5)) svg.append(
    drawn('line', {x1: CURVE_LEFT, x2: CURVE_WIDTH - 8, y1: y(value), y2: y(value), class: 'grid'}),
    drawn('text', {x: CURVE_LEFT - 6, y: y(value) + 3.5, class: 'tick end'}, text(value)));
  for (const step of niceTicks(from, to, 4)) if (Number.isInteger(step)) svg.append(
    drawn('text', {x: Math.min(x(step), CURVE_WIDTH - 16), y: CURVE_HIGH - 4, class: 'tick'}, countText(step)));
  for (const line of lines) svg.append(...shapes(line, x, y));
  listen(svg, lines, {from, to, text, x});
  const names = lines.length > 1 ? lines.map((line) => make('span', {style: `--colour: ${line.colour}`}, line.name)) : [];
  return make('figure', {class: 'curve-box', 'data-curve': id}, make('figcaption', {}, make('b', {}, title), names), svg);
}

function shapes(line, x, y) {
  const points = line.steps.map((step, i) => [step, line.values[i]]).filter(([, value]) => value !== null);
  let path = '', pen = false;
  line.steps.forEach((step, i) => {
    if (line.values[i] === null) return void (pen = false);
    path += `${pen ? 'L' : 'M'}${x(step).toFixed(1)} ${y(line.values[i]).toFixed(1)}`;
    pen = true;
  });
  const made = [drawn('path', {d: path, class: 'line', style: `stroke: ${line.colour}`})];
  if (line.dots || points.length === 1) made.push(...points.map(([step, value]) => drawn(
    'circle', {cx: x(step), cy: y(value), r: 3, style: `fill: ${line.colour}`})));
  return made;
}

function listen(svg, lines, {from, to, text, x}) {
  const cross = drawn('line', {y1: 6, y2: CURVE_HIGH - CURVE_FOOT, class: 'cross', visibility: 'hidden'});
  svg.append(cross);
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const at = from + (((event.clientX - box.left) * CURVE_WIDTH) / box.width - CURVE_LEFT) * (to - from) / (CURVE_WIDTH - CURVE_LEFT - 8);
    const told = lines.map((line) => {
      const i = line.steps.reduce((best, step, k) => (Math.abs(step - at) < Math.abs(line.steps[best] - at) ? k : best), 0);
      return line.steps.length ? [line.steps[i], `${line.name} ${line.values[i] === null ? 'not finite' : text(line.values[i])}`] : null;
    }).filter(Boolean);
    if (told.length === 0) return;
    cross.setAttribute('x1', x(told[0][0]));
    cross.setAttribute('x2', x(told[0][0]));
    cross.setAttribute('visibility', 'visible');
    showTooltip(event, [`step ${countText(told[0][0])}`, ...told.map(([, words]) => words)]);
  });
  svg.addEventListener('pointerleave', () => {
    cross.setAttribute('visibility', 'hidden');
    hideTooltip();
  });
}
