// The comparison: plans as a table that can be sorted and narrowed down, step
// time against memory, and a click that shows a plan or two side by side.

import {drawn, make, tableOf} from './elements.js';
import {stageColour} from './palette.js';
import {hideTooltip, panel, showTooltip} from './panel.js';
import {bytesText, niceTicks, numberText, percentText, secondsText} from './units.js';

const W = 460, H = 290, LEFT_SPACE = 64, FOOT_SPACE = 40;

function rowsOf(data) {
  return data.comparison.plans.map((plan, row) => ({
    ...plan, row, report: data.reported[row], front: data.front[row]})).filter((plan) => !plan.refused);
}

const methodsOf = (rows) => [...new Set(rows.map((row) => row.method))];
const colourOf = (rows, row) => stageColour(methodsOf(rows).indexOf(row.method));
const stagesText = (row) => `${row.stages.length}`;

function scatter(rows, all, state, choose) {
  const most = (key) => rows.reduce((max, row) => Math.max(max, row[key]), 0) * 1.06 || 1;
  const wide = most('step_seconds'), high = most('memory_bytes');
  const x = (row) => LEFT_SPACE + (row.step_seconds / wide) * (W - LEFT_SPACE - 10);
  const y = (row) => (H - FOOT_SPACE) * (1 - row.memory_bytes / high) + 6;
  const svg = drawn('svg', {viewBox: `0 0 ${W} ${H + 6}`, class: 'scatter', role: 'img',
                            'aria-label': 'Step time against memory; the table has the figures'});
  for (const value of niceTicks(0, wide, 5)) svg.append(
    drawn('line', {x1: x({step_seconds: value}), x2: x({step_seconds: value}), y1: 6, y2: H - FOOT_SPACE + 6, class: 'grid'}),
    drawn('text', {x: x({step_seconds: value}), y: H - FOOT_SPACE + 20, class: 'tick'}, secondsText(value)));
  for (const value of niceTicks(0, high, 4)) svg.append(
    drawn('line', {x1: LEFT_SPACE, x2: W - 10, y1: y({memory_bytes: value}), y2: y({memory_bytes: value}), class: 'grid'}),
    drawn('text', {x: LEFT_SPACE - 6, y: y({memory_bytes: value}) + 3.5, class: 'tick end'}, bytesText(value)));
  svg.append(drawn('text', {x: (W + LEFT_SPACE) / 2, y: H + 2, class: 'tick'}, 'step'),
             drawn('text', {x: 0, y: 0, class: 'tick', transform: `translate(10 ${(H - FOOT_SPACE) / 2}) rotate(-90)`},
                   'memory of the fullest device'));
  const front = rows.filter((row) => row.front).sort((a, b) => a.step_seconds - b.step_seconds);
  if (front.length > 1) svg.append(drawn('path', {class: 'front', d: front.map((row, i) => (
    i === 0 ? `M${x(row)} ${y(row)}` : `H${x(row)}V${y(row)}`)).join('')}));
  for (const row of rows) {
    const dot = drawn('circle', {cx: x(row), cy: y(row), r: row.row === state.shown ? 8 : 5.5, class: 'dot',
                                 'data-row': row.row, style: `fill: ${colourOf(all, row)}`});
    dot.addEventListener('pointermove', (event) => showTooltip(event, [
      `${row.planner}, ${row.method}`, `step ${secondsText(row.step_seconds)}, memory ${bytesText(row.memory_bytes)}`,
      `${row.schedule}, ${row.stages.length} stages, microbatch ${row.microbatch}`,
      ...(row.front ? ['no plan is both faster and smaller'] : [])]));
    dot.addEventListener('pointerleave', hideTooltip);
    dot.addEventListener('click', () => choose(row));
    svg.append(dot);
  }
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
    column('samples', 'microbatch', String), column('step', 'step_seconds', secondsText),
    ...(rows.some((row) => row.speedup !== undefined) ? [column('speedup', 'speedup', (value) => numberText(value ?? 0))] : []),
    column('bubble', 'bubble', percentText), column('memory', 'memory_bytes', bytesText),
    column('sent', 'traffic_bytes', bytesText), column('gap', 'gap', percentText)];
  if (rows.some((row) => row.staleness > 0)) columns.push(column('stale', 'staleness', numberText));
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
    right.replaceChildren(rows.length > 0 ? scatter(rows, all, state, choose) : make('p', {}, 'No plan is left.'));
  };
  const selects = Object.keys(filters).map((name) => choiceOf(name, [...new Set(all.map((row) => row[name]))], '', (value) => {
    filters[name] = value;
    fill();
  }));
  const others = all.filter((row) => row.report >= 0);
  const beside = make('select', {id: 'beside', onchange: () => {
    state.beside = beside.value === '' ? null : Number(beside.value);
    show();
  }}, make('option', {value: ''}, 'nothing beside it'), others.map((row) => make(
    'option', {value: row.row}, `beside it: ${row.planner}, ${row.method}, ${secondsText(row.step_seconds)}`)));
  fill();
  const refused = data.comparison.plans.filter((plan) => plan.refused);
  return panel('comparison', 'Comparison', 'click a row or a dot to see the plan below; dashed: no plan is both faster and smaller',
               make('p', {class: 'why', 'data-about': 'why'}, data.comparison.why),
               make('div', {class: 'bar-row'}, make('div', {class: 'toolbar'}, selects), others.length > 1 ? beside : null),
               make('div', {class: 'compare-columns'}, left, right),
               refused.length > 0 ? make('details', {}, make('summary', {}, `${refused.length} without a plan`),
                 make('ul', {}, refused.map((plan) => make('li', {}, `${plan.planner} (${plan.method}): ${plan.refused}`)))) : null);
}

// Two plans side by side: their figures, and the difference.
export function besidePanel(a, b, views) {
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
  return panel('beside-plans', 'Two plans side by side', 'timelines on one scale', table,
               views.map(([name, view]) => [make('h3', {}, name), view.box]));
}
