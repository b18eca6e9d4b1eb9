// The comparison: plans as a table that can be sorted and narrowed down, step
// time against memory, and a click that shows a plan or two side by side.

import {drawn, make, tableOf} from './elements.js';
import {stageColour} from './palette.js';
import {doable, hideTooltip, legend, panel, redrawn, showTooltip} from './panel.js';
import {bytesText, distinctTexts, niceTicks, numberText, percentText, secondsText} from './units.js';

const LEFT_SPACE = 66, RIGHT_SPACE = 14, TOP_SPACE = 8, FOOT_SPACE = 40;

function rowsOf(data) {
  return data.comparison.plans.map((plan, row) => ({
    ...plan, row, report: data.reported[row], front: data.front[row]})).filter((plan) => !plan.refused);
}

const methodsOf = (rows) => [...new Set(rows.map((row) => row.method))];
const colourOf = (rows, row) => stageColour(methodsOf(rows).indexOf(row.method));
const stagesText = (row) => `${row.stages.length}`;

// Places values between two ends: by their logarithm where they differ much.
function scaleOf(values, from, to) {
  const low = values.reduce((a, b) => Math.min(a, b), Infinity), high = values.reduce((a, b) => Math.max(a, b), 0) || 1;
  const isLog = low > 0 && high / low > 4;
  const of = isLog ? Math.log10 : (value) => value;
  const space = 0.08 * (high - low) || 0.1 * high;
  const least = isLog ? of(low / 1.15) : Math.max(0, low - space), most = isLog ? of(high * 1.15) : high + space;
  const ticks = isLog ? logTicks(low / 1.15, high * 1.15) : niceTicks(least, most, 5);
  return {isLog, ticks, at: (value) => from + ((of(value) - least) / (most - least)) * (to - from)};
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
    for (const digit of [1, 2, 5]) ticks.push(digit * 10 ** power);
  return ticks.filter((value) => value >= low && value <= high);
}

function dotOf(row, at, colour, isShown, choose) {
  const dot = drawn('circle', {cx: at[0], cy: at[1], r: isShown ? 8 : 5.5, class: isShown ? 'dot shown' : 'dot',
                               'data-row': row.row, style: `fill: ${colour}`});
  dot.addEventListener('pointermove', (event) => showTooltip(event, [
    `${row.planner}, ${row.method}`, `step ${secondsText(row.step_seconds)}, memory ${bytesText(row.memory_bytes)}`,
    `${row.schedule}, ${row.stages.length} stages, microbatch ${row.microbatch}`,
    ...(row.front ? ['no plan is both faster and smaller'] : [])]));
  dot.addEventListener('pointerleave', hideTooltip);
  dot.addEventListener('click', () => choose(row));
  return dot;
}

// Names of the plan that is shown and of those on the front, beside their dots
// where they cover nothing.
function dotNames(rows, place, width, bottom, state) {
  const taken = rows.map(place).map(([x, y]) => ({left: x - 6, right: x + 6, top: y - 6, bottom: y + 6}));
  const isFree = (box) => box.left > LEFT_SPACE && box.right < width && box.top > 0 && box.bottom < bottom &&
    !taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom);
  const named = rows.filter((row) => row.front || row.row === state.shown);
  return named.sort((a, b) => (b.row === state.shown) - (a.row === state.shown)).flatMap((row) => {
    const [x, y] = place(row), wide = 6.4 * row.planner.length;
    const boxes = [[x + 11, y - 7], [x - 11 - wide, y - 7], [x - wide / 2, y - 25], [x - wide / 2, y + 11]].map(
      ([left, top]) => ({left, top, right: left + wide, bottom: top + 14}));
    const free = boxes.find(isFree);
    if (!free) return [];
    taken.push(free);
    return [drawn('text', {x: free.left, y: free.bottom - 3, class: 'dot-name'}, row.planner)];
  });
}

function scatter(rows, all, state, choose, width) {
  const height = Math.max(260, Math.min(420, 40 + 25 * rows.length)), bottom = height - FOOT_SPACE;
  const x = scaleOf(rows.map((row) => row.step_seconds), LEFT_SPACE, width - RIGHT_SPACE);
  const y = scaleOf(rows.map((row) => row.memory_bytes), bottom, TOP_SPACE);
  const place = (row) => [x.at(row.step_seconds), y.at(row.memory_bytes)];
  const svg = drawn('svg', {width, height, class: 'scatter', role: 'img',
                            'aria-label': 'Step time against memory; the table has the figures'});
  const names = [distinctTexts(x.ticks, secondsText), distinctTexts(y.ticks, bytesText)];
  x.ticks.forEach((value, i) => svg.append(
    drawn('line', {x1: x.at(value), x2: x.at(value), y1: TOP_SPACE, y2: bottom, class: 'grid'}),
    drawn('text', {x: x.at(value), y: bottom + 15, class: 'tick'}, names[0][i])));
  y.ticks.forEach((value, i) => svg.append(
    drawn('line', {x1: LEFT_SPACE, x2: width - RIGHT_SPACE, y1: y.at(value), y2: y.at(value), class: 'grid'}),
    drawn('text', {x: LEFT_SPACE - 6, y: y.at(value) + 3.5, class: 'tick end'}, names[1][i])));
  svg.append(drawn('text', {x: (width + LEFT_SPACE) / 2, y: height - 5, class: 'tick'}, x.isLog ? 'step (logarithmic)' : 'step'),
             drawn('text', {x: 0, y: 0, class: 'tick', transform: `translate(11 ${bottom / 2}) rotate(-90)`},
                   `memory of the fullest device${y.isLog ? ' (logarithmic)' : ''}`));
  const front = rows.filter((row) => row.front).sort((a, b) => a.step_seconds - b.step_seconds).map(place);
  if (front.length > 1) svg.append(drawn('path', {class: 'front', d: front.map((at, i) => (
    i === 0 ? `M${at[0]} ${at[1]}` : `H${at[0]}V${at[1]}`)).join('')}));
  const last = [...rows].sort((a, b) => (a.row === state.shown) - (b.row === state.shown));
  svg.append(...last.map((row) => dotOf(row, place(row), colourOf(all, row), row.row === state.shown, choose)),
             ...dotNames(rows, place, width, bottom, state));
  return svg;
}

function plansTable(rows, all, state, choose) {
  const column = (title, key, text) => ({title, text: (row) => text(row[key]), value: (row) => row[key]});
  const columns = [
    {title: 'planner', left: true, value: (row) => row.planner, text: (row) => [
      make('i', {class: 'swatch', style: `--colour: ${colourOf(all, row)}`}), row.planner]},
    {title: 'method', left: true, value: (row) => row.method, text: (row) => row.method},
    {title: 'schedule', left: true, value: (row) => row.schedule, text: (row) => row.schedule},
    {title: 'stages', value: (row) => row.stages.length, text: stagesText},
    column('microbatch', 'microbatch', String), column('step', 'step_seconds', secondsText),
    ...(rows.some((row) => row.speedup !== undefined) ? [column('speedup', 'speedup', (value) => numberText(value ?? 0))] : []),
    column('bubble', 'bubble', percentText), column('memory', 'memory_bytes', bytesText),
    column('sent', 'traffic_bytes', bytesText), column('gap', 'gap', percentText)];
  if (rows.some((row) => row.staleness > 0)) columns.push(column('stale, steps', 'staleness', numberText));
  return tableOf(columns, rows, {
    onrow: choose,
    attributes: (row) => ({'data-row': row.row, tabindex: row.report >= 0 ? 0 : null,
                           class: [row.report >= 0 ? 'can' : '', row.row === state.shown ? 'shown' : ''].join(' ').trim() || null})});
}

function choiceOf(name, values, chosen, onchange) {
  const select = make('select', {'data-filter': name, onchange: () => onchange(select.value)},
                      ['', ...values].map((value) => make('option', {value, selected: value === chosen}, value || `all ${name}s`)));
  return select;
}

// `show(row, beside)` draws the plans below.
export function comparePanel(data, state, show) {
  const all = rowsOf(data);
  const filters = {planner: '', method: '', schedule: ''};
  const left = make('div'), right = make('div');
  const choose = (row) => {
    if (row.report < 0) return;
    state.shown = row.row;
    fill();
    show();
  };
  const fill = () => {
    const rows = all.filter((row) => Object.entries(filters).every(([key, value]) => value === '' || row[key] === value));
    left.replaceChildren(plansTable(rows, all, state, choose));
    const drawing = make('div', {class: 'scatter-space'});
    if (rows.length > 0) redrawn(drawing, (width) => drawing.replaceChildren(scatter(rows, all, state, choose, width)));
    right.replaceChildren(rows.length > 0 ? drawing : make('p', {}, 'No plan is left.'),
                          legend(methodsOf(rows).map((method) => [method, colourOf(all, {method})])));
  };
  const selects = Object.keys(filters).map((name) => choiceOf(name, [...new Set(all.map((row) => row[name]))], '', (value) => {
    filters[name] = value;
    fill();
  }));
  const others = all.filter((row) => row.report >= 0);
  const beside = make('select', {id: 'beside', onchange: () => {
    state.beside = beside.value === '' ? null : Number(beside.value);
    show();
  }}, make('option', {value: ''}, 'no other plan beside it'), others.map((row) => make(
    'option', {value: row.row}, `beside it: ${row.planner}, ${row.method}, ${secondsText(row.step_seconds)}`)));
  fill();
  const refused = data.comparison.plans.filter((plan) => plan.refused);
  return panel('comparison', 'Comparison', [doable('click a row or a dot to see the plan below; '), 'dashed: no plan is both faster and smaller'],
               make('p', {class: 'why'}, data.first > 0 ? 'Of the plans without stale weights, ' : null,
                    make('span', {id: 'why'}, data.comparison.why)),
               make('div', {class: 'bar-row'}, make('div', {class: 'toolbar'}, selects), others.length > 1 ? beside : null),
               make('div', {class: 'compare-columns'}, left, right),
               refused.length > 0 ? make('details', {}, make('summary', {}, `${refused.length} without a plan`),
                 make('ul', {}, refused.map((plan) => make('li', {}, `${plan.planner} (${plan.method}): ${plan.refused}`)))) : null);
}

// Two plans side by side: their figures, and the difference.
export function besidePanel(a, b, bar, views) {
  const rows = [
    ['planner', a.planner, b.planner], ['method', a.method, b.method], ['schedule', a.schedule, b.schedule],
    ['stages', stagesText(a), stagesText(b)], ['samples per microbatch', `${a.microbatch}`, `${b.microbatch}`],
    ['step', secondsText(a.step_seconds), secondsText(b.step_seconds), b.step_seconds / a.step_seconds - 1],
    ['bubble', percentText(a.bubble), percentText(b.bubble)],
    ['memory', bytesText(a.memory_bytes), bytesText(b.memory_bytes), b.memory_bytes / a.memory_bytes - 1],
    ['sent per step', bytesText(a.traffic_bytes), bytesText(b.traffic_bytes),
     a.traffic_bytes > 0 ? b.traffic_bytes / a.traffic_bytes - 1 : undefined]];
  const signed = (share) => (share === undefined ? '' : `${share > 0 ? '+' : ''}${percentText(share)}`);
  const table = tableOf([
    {title: '', left: true, text: (row) => row[0]}, {title: 'shown', text: (row) => row[1]},
    {title: 'beside it', text: (row) => row[2]}, {title: 'difference', text: (row) => signed(row[3])}], rows);
  return panel('beside-plans', 'Two plans side by side', 'timelines on one scale',
               make('div', {class: 'short-table'}, table), bar, views.map(([name, view]) => [make('h3', {}, name), view.box]));
}
