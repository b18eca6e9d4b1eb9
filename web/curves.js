// Lines over steps: small charts with axes, one unit each.

import {drawn, make} from './elements.js';
import {hideTooltip, redrawn, showTooltip} from './panel.js';
import {countText, distinctTexts, niceTicks, numberText} from './units.js';

const CURVE_LEFT = 56, CURVE_RIGHT = 12, CURVE_TOP = 8, CURVE_HIGH = 160, CURVE_FOOT = 20;

function rangeOf(values) {
  const finite = values.filter((value) => value !== null && Number.isFinite(value));
  if (finite.length === 0) return [0, 1];
  const low = finite.reduce((a, b) => Math.min(a, b)), high = finite.reduce((a, b) => Math.max(a, b));
  const space = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 ? Math.max(0, low - space) : low - space, high + space];
}

// `lines`: {name, colour, steps, values, dots}; a null is a gap.
export function curveChart(id, title, lines, text = numberText) {
  const names = lines.length > 1 ? lines.map((line) => make('span', {style: `--colour: ${line.colour}`}, line.name)) : [];
  const box = make('div', {class: 'curve-space'});
  redrawn(box, (width) => box.replaceChildren(drawnCurves(title, lines, text, width)));
  return make('figure', {class: 'curve-box', 'data-curve': id}, make('figcaption', {}, make('b', {}, title), names), box);
}

function drawnCurves(title, lines, text, width) {
  const steps = lines.flatMap((line) => line.steps);
  const from = steps.reduce((a, b) => Math.min(a, b), Infinity), to = steps.reduce((a, b) => Math.max(a, b), -Infinity);
  const [low, high] = rangeOf(lines.flatMap((line) => line.values));
  const wide = width - CURVE_LEFT - CURVE_RIGHT;
  const x = (step) => CURVE_LEFT + ((step - from) / Math.max(1, to - from)) * wide;
  const y = (value) => CURVE_TOP + (1 - (value - low) / (high - low)) * (CURVE_HIGH - CURVE_FOOT - CURVE_TOP);
  const svg = drawn('svg', {width, height: CURVE_HIGH, class: 'curve', role: 'img', 'aria-label': title});
  const ticks = niceTicks(low, high, 5), texts = distinctTexts(ticks, text);
  ticks.forEach((value, i) => svg.append(
    drawn('line', {x1: CURVE_LEFT, x2: width - CURVE_RIGHT, y1: y(value), y2: y(value), class: 'grid'}),
    drawn('text', {x: CURVE_LEFT - 6, y: y(value) + 3.5, class: 'tick end'}, texts[i])));
  for (const step of niceTicks(from, to, Math.min(6, wide / 70))) if (Number.isInteger(step)) svg.append(
    drawn('text', {x: Math.min(x(step), width - 16), y: CURVE_HIGH - 4, class: 'tick'}, countText(step)));
  for (const line of lines) svg.append(...shapes(line, x, y));
  listen(svg, lines, {text, x, at: (place) => from + ((place - CURVE_LEFT) / wide) * (to - from)});
  return svg;
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

function listen(svg, lines, {text, x, at}) {
  const cross = drawn('line', {y1: CURVE_TOP, y2: CURVE_HIGH - CURVE_FOOT, class: 'cross', visibility: 'hidden'});
  svg.append(cross);
  svg.addEventListener('pointermove', (event) => {
    const pointed = at(event.clientX - svg.getBoundingClientRect().left);
    const told = lines.map((line) => {
      const i = line.steps.reduce((best, step, k) => (
        Math.abs(step - pointed) < Math.abs(line.steps[best] - pointed) ? k : best), 0);
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
