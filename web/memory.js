// Memory over time: one small chart per worker, stacked by what it is for, with
// the limit of the device.

import {drawn, make} from './elements.js';
import {MEMORY} from './palette.js';
import {hideTooltip, legend, panel, showTooltip} from './panel.js';
import {bytesText, percentText, secondsText} from './units.js';

const WIDTH = 300, HEIGHT = 96;
const FIRST_SHOWN = 8;

// At each pixel the moment with the most bytes, so that no peak is lost.
function columnsOf(worker, run) {
  const columns = [];
  const constant = Object.values(worker.constant).reduce((sum, bytes) => sum + bytes, 0);
  const total = (i) => constant + worker.kept[i] + worker.buffers[i];
  let i = 0;
  for (let x = 0; x < WIDTH; ++x) {
    const end = ((x + 1) * run) / WIDTH;
    let best = i;
    while (i + 1 < worker.times.length && worker.times[i + 1] < end) {
      ++i;
      if (total(i) > total(best) || worker.times[best] < (x * run) / WIDTH) best = i;
    }
    columns.push(total(i) > total(best) ? i : best);
  }
  return columns;
}

const bytesOf = (worker, name, i) => (name === 'kept' || name === 'buffers' ? worker[name][i] : worker.constant[name]);

function stack(worker, columns, top) {
  const below = new Float64Array(WIDTH);
  const shapes = [];
  for (const [name, , colour] of MEMORY) {
    const upper = columns.map((i, x) => below[x] + Math.max(0, bytesOf(worker, name, i)));
    if (upper.every((bytes, x) => bytes === below[x])) continue;
    const y = (bytes) => (HEIGHT * (1 - bytes / top)).toFixed(1);
    let path = `M0 ${y(upper[0])}`;
    for (let x = 1; x < WIDTH; ++x) if (upper[x] !== upper[x - 1]) path += `H${x}V${y(upper[x])}`;
    path += `H${WIDTH}V${y(below[WIDTH - 1])}`;
    for (let x = WIDTH - 2; x >= 0; --x) if (below[x] !== below[x + 1]) path += `H${x + 1}V${y(below[x])}`;
    shapes.push(drawn('path', {d: `${path}H0Z`, fill: colour}));
    upper.forEach((bytes, x) => { below[x] = bytes; });
  }
  return shapes;
}

function memoryLines(worker, i, unit) {
  const rows = MEMORY.map(([name, text]) => [text, bytesOf(worker, name, i)]).filter(([, bytes]) => bytes > 0);
  const total = rows.reduce((sum, [, bytes]) => sum + bytes, 0);
  return [`worker ${worker.worker} at ${secondsText(worker.times[i] * unit)}: ${bytesText(total)}`,
          ...rows.reverse().map(([text, bytes]) => `${text} ${bytesText(bytes)}`)];
}

// Where far less is used than there is, a chart ends above the largest peak and
// says where the limit is.
const isClose = (worker) => worker.peak_bytes > 0.4 * worker.limit_bytes;
const topOf = (memory) => 1.08 * Math.max(...memory.map(
  (worker) => (isClose(worker) ? Math.max(worker.limit_bytes, worker.peak_bytes) : worker.peak_bytes))) || 1;

function chart(worker, timeline, top) {
  const run = Math.max(1, Math.round(timeline.duration_seconds / timeline.tick_seconds));
  const close = isClose(worker);
  const columns = columnsOf(worker, run);
  const svg = drawn('svg', {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img',
                            'aria-label': `Memory of worker ${worker.worker}: at most ${bytesText(worker.peak_bytes)}`},
                    stack(worker, columns, top));
  if (close) {
    const y = HEIGHT * (1 - worker.limit_bytes / top);
    svg.append(drawn('line', {x1: 0, x2: WIDTH, y1: y, y2: y, class: 'limit'}));
  }
  const cross = drawn('line', {y1: 0, y2: HEIGHT, class: 'cross', visibility: 'hidden'});
  svg.append(cross);
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const x = Math.min(WIDTH - 1, Math.max(0, Math.floor(((event.clientX - box.left) * WIDTH) / box.width)));
    cross.setAttribute('x1', x);
    cross.setAttribute('x2', x);
    cross.setAttribute('visibility', 'visible');
    showTooltip(event, memoryLines(worker, columns[x], timeline.tick_seconds));
  });
  svg.addEventListener('pointerleave', () => {
    cross.setAttribute('visibility', 'hidden');
    hideTooltip();
  });
  const full = worker.peak_bytes > worker.limit_bytes;
  return make('figure', {class: full ? 'memory full' : 'memory', 'data-worker': worker.worker},
              make('figcaption', {}, make('b', {}, `worker ${worker.worker}`),
                   make('span', {class: 'peak'}, bytesText(worker.peak_bytes)),
                   make('span', {class: 'of'}, ` of ${bytesText(worker.limit_bytes)} ` +
                        `(${percentText(worker.peak_bytes / worker.limit_bytes)})`)), svg);
}

export function memoryPanel(report) {
  const {memory, timeline} = report;
  const fullest = [...memory].sort((a, b) => b.peak_bytes / b.limit_bytes - a.peak_bytes / a.limit_bytes);
  const few = fullest.slice(0, FIRST_SHOWN).sort((a, b) => a.worker - b.worker);
  const top = topOf(memory);
  const grid = make('div', {class: 'memory-grid'}, few.map((worker) => chart(worker, timeline, top)));
  const more = memory.length > few.length ? make('button', {type: 'button', class: 'more', onclick: () => {
    grid.replaceChildren(...memory.map((worker) => chart(worker, timeline, top)));
    more.remove();
  }}, `The fullest ${few.length} are shown. Show all ${memory.length}`) : null;
  const used = MEMORY.filter(([name]) => memory.some((worker) => (
    name === 'kept' || name === 'buffers' ? worker[name].some((bytes) => bytes > 0) : worker.constant[name] > 0)));
  return panel('memory', 'Memory over time', memory.some(isClose) ? 'all workers to one scale; dashed: the limit of the device'
                                                                  : 'all workers to one scale, far below the limit',
               legend(used.map(([, text, colour]) => [text, colour])), grid, more);
}
