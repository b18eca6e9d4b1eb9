// The timeline panel: rows of workers and links, zoom and pan, one microbatch or
// worker highlighted, dependencies of the action under the pointer, and the
// critical path.

import {make, tableOf} from './elements.js';
import {ACTIONS, MESSAGES, actionColours, themeColour} from './palette.js';
import {doable, hideTooltip, legend, panel, redrawn, showTooltip, sizeCanvas} from './panel.js';
import {GUTTER, drawRows} from './timeline_canvas.js';
import {messageBytes, messagesOf, sameBefore, spanAt, timelineRows} from './timeline_data.js';
import {bytesText, distinctTexts, niceTicks, percentText, secondsText} from './units.js';

const AXIS = 22;
const MANY_WORKERS = 24;

// `options.run`: ticks that are shown, if more than the timeline has;
// `options.marked`: actions that are outlined; `options.links`: whether links
// are rows at first, where few workers are.
export class TimelineView {
  constructor(timeline, name, options = {}) {
    this.timeline = timeline;
    this.run = Math.round(options.run || timeline.duration_seconds / timeline.tick_seconds);
    this.marked = options.marked || [];
    this.others = [];  // views that zoom and move with this one
    this.from = 0;
    this.to = this.run;
    this.chosen = null;  // {microbatch} or {worker}
    this.showLinks = options.links !== false && timeline.links.length > 0 && timeline.workers.length <= 16;
    this.showPath = false;
    this.canvas = make('canvas', {
      tabindex: 0, role: 'img', 'aria-label': `${name}: ${timeline.workers.length} workers over ` +
        `${secondsText(timeline.duration_seconds)}; the table below has the figures`});
    this.overlay = make('canvas', {class: 'overlay', 'aria-hidden': 'true'});
    this.box = make('div', {class: 'timeline-box'}, this.canvas, this.overlay);
    this.draw = redrawn(this.box, () => this.redraw());
    this.listen();
  }

  layOut() {
    const many = this.timeline.workers.length > MANY_WORKERS;
    this.rows = timelineRows(this.timeline, this.showLinks);
    let top = AXIS + 4;
    for (const row of this.rows) {
      row.height = row.type === 'link' ? (many ? 4 : 8) : many ? 11 : 22;
      row.top = top;
      top += row.height + (many ? 2 : 4);
    }
    this.height = top + 4;
    this.laidOutWithLinks = this.showLinks;
  }

  redraw() {
    if (!this.rows || this.laidOutWithLinks !== this.showLinks) this.layOut();
    const started = performance.now();
    const width = this.box.clientWidth;
    this.width = Math.max(50, width - GUTTER - 2);
    const context = sizeCanvas(this.canvas, width, this.height);
    this.drawAxis(context);
    this.drawNames(context);
    drawRows(context, this.rows, this);
    this.drawReductions(context);
    if (this.showPath) this.drawPath(context);
    this.drawMarks(context);
    this.overlayContext = sizeCanvas(this.overlay, width, this.height);
    const data = this.box.dataset;
    data.from = this.from;
    data.to = this.to;
    data.links = this.showLinks;
    data.path = this.showPath;
    data.highlight = this.chosen === null ? '' : JSON.stringify(this.chosen);
    data.redrawMs = performance.now() - started;
    this.box.dispatchEvent(new Event('drawn'));
  }

  x(tick) {
    return GUTTER + ((tick - this.from) * this.width) / (this.to - this.from);
  }

  tickAt(x) {
    return this.from + ((x - GUTTER) * (this.to - this.from)) / this.width;
  }

  drawAxis(context) {
    const unit = this.timeline.tick_seconds;
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'center';
    context.strokeStyle = themeColour('line');
    context.fillStyle = themeColour('muted');
    const ticks = niceTicks(this.from * unit, this.to * unit, this.width / 110), texts = distinctTexts(ticks, secondsText);
    this.box.dataset.axis = texts.join(', ');
    ticks.forEach((seconds, i) => {
      const x = Math.round(this.x(seconds / unit)) + 0.5;
      context.beginPath();
      context.moveTo(x, AXIS);
      context.lineTo(x, this.height);
      context.stroke();
      const half = context.measureText(texts[i]).width / 2;
      context.fillText(texts[i], Math.min(GUTTER + this.width - half, Math.max(GUTTER + half, x)), AXIS / 2);
    });
  }

  drawNames(context) {
    const many = this.timeline.workers.length > MANY_WORKERS;
    const ink = themeColour('ink'), muted = themeColour('muted');
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const row of this.rows) {
      const link = row.type === 'link';
      if (link && many) continue;
      context.font = link || many ? '10px system-ui, sans-serif' : '12px system-ui, sans-serif';
      context.fillStyle = link ? muted : ink;
      context.fillText(link ? `${row.from} \u2192 ${row.to}` : `worker ${row.worker}`, GUTTER - 10,
                       row.top + row.height / 2 + 0.5);
    }
  }

  // All-reduces run beside compute: a line at the foot of the row.
  drawReductions(context) {
    context.fillStyle = actionColours().V;
    for (const row of this.rows) {
      if (row.type !== 'worker') continue;
      row.reductions.starts.forEach((start, i) => {
        const left = Math.max(GUTTER, this.x(start));
        const right = Math.min(GUTTER + this.width, this.x(row.reductions.ends[i]));
        if (right > left) context.fillRect(left, row.top + row.height - 3, right - left, 3);
      });
    }
  }

  drawMarks(context) {
    context.strokeStyle = themeColour('path');
    context.lineWidth = 2;
    for (const mark of this.marked) {
      const row = this.rowOf(mark.worker);
      if (!row) continue;
      for (let i = 0; i < row.kinds.length; ++i) {
        const same = row.kinds[i] === mark.kind && row.stages[i] === mark.stage &&
                     (mark.kind === 'S' || row.keys[i] === mark.microbatch);
        const left = Math.max(GUTTER, this.x(row.starts[i])), right = Math.min(GUTTER + this.width, this.x(row.ends[i]));
        if (same && right > left) context.strokeRect(left, row.top, right - left, row.height);
      }
    }
    context.lineWidth = 1;
  }

  rowOf(worker, to) {
    return this.rows.find((row) => (to === undefined ? row.type === 'worker' && row.worker === worker
                                                     : row.type === 'link' && row.from === worker && row.to === to));
  }

  drawPath(context) {
    const path = this.timeline.critical_path;
    const rowAt = new Map(this.rows.map((row) => [row.type === 'worker' ? `${row.worker}` : `${row.from}-${row.to}`, row]));
    context.strokeStyle = themeColour('path');
    context.lineWidth = 2;
    context.lineJoin = 'round';
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, this.width, this.height);
    context.clip();
    context.beginPath();
    let pen = false;
    for (let i = 0; i < path.kinds.length; ++i) {
      const link = path.kinds[i] === 'L';
      const row = (link && rowAt.get(`${path.workers[i]}-${path.to[i]}`)) || rowAt.get(`${path.workers[i]}`);
      if (!row || path.ends[i] < this.from || path.starts[i] > this.to) {
        pen = false;
        continue;
      }
      const y = row.top + row.height - 1;  // below the labels
      if (pen) context.lineTo(this.x(path.starts[i]), y);
      else context.moveTo(this.x(path.starts[i]), y);
      context.lineTo(this.x(path.ends[i]), y);
      pen = true;
    }
    context.stroke();
    context.restore();
    context.lineWidth = 1;
  }

  setRange(from, to) {
    this.moveTo(from, to);
    for (const other of this.others) {
      const scale = this.timeline.tick_seconds / other.timeline.tick_seconds;
      other.moveTo(from * scale, to * scale);
    }
  }

  moveTo(from, to) {
    const least = Math.min(this.run, 40);
    const length = Math.min(this.run, Math.max(least, to - from));
    this.from = Math.min(Math.max(0, from), this.run - length);
    this.to = this.from + length;
    this.later();
  }

  zoom(factor, x = GUTTER + this.width / 2) {
    const centre = this.tickAt(x);
    this.setRange(centre - (centre - this.from) / factor, centre + (this.to - centre) / factor);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    this.setRange(this.from + by, this.to + by);
  }

  // In all views that move together; once more: nothing.
  choose(chosen) {
    const next = JSON.stringify(chosen) === JSON.stringify(this.chosen) ? null : chosen;
    for (const view of [this, ...this.others]) {
      view.chosen = next;
      view.redraw();
    }
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.redraw();
    });
  }

  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const row = this.rows.find((each) => y >= each.top - 1 && y <= each.top + each.height + 1);
    if (!row) return null;
    if (x < GUTTER) return {row, span: -1};
    const slack = (2 * (this.to - this.from)) / this.width;
    return {row, span: spanAt(row, this.tickAt(x), slack)};
  }

  listen() {
    const canvas = this.canvas;
    let drag = null;
    canvas.addEventListener('pointerdown', (event) => {
      drag = {x: event.clientX, from: this.from, to: this.to, moved: false};
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag) return this.hover(event);
      const by = ((drag.x - event.clientX) * (drag.to - drag.from)) / this.width;
      if (Math.abs(drag.x - event.clientX) > 3) drag.moved = true;
      if (drag.moved) this.setRange(drag.from + by, drag.to + by);
    });
    canvas.addEventListener('pointerup', (event) => {
      const clicked = drag && !drag.moved;
      drag = null;
      if (clicked) this.click(event);
    });
    canvas.addEventListener('pointerleave', () => this.clearHover());
    canvas.addEventListener('dblclick', (event) => this.zoom(4, event.offsetX));
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      const by = event.deltaY || event.deltaX;
      this.zoom(Math.exp(-by / 300), event.offsetX);
    }, {passive: false});
    canvas.addEventListener('keydown', (event) => this.key(event));
  }

  key(event) {
    const actions = {
      '+': () => this.zoom(1.6), '=': () => this.zoom(1.6), '-': () => this.zoom(1 / 1.6),
      ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
      0: () => this.setRange(0, this.run), Escape: () => this.choose(this.chosen),
      l: () => this.toggleLinks(), c: () => this.togglePath(),
      '.': () => this.chooseNext('microbatch', 1), ',': () => this.chooseNext('microbatch', -1),
      ArrowDown: () => this.chooseNext('worker', 1), ArrowUp: () => this.chooseNext('worker', -1),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  // The microbatch or worker after the highlighted one, or before it.
  chooseNext(what, by) {
    const rows = this.rows.filter((row) => row.type === 'worker');
    const known = what === 'worker' ? rows.map((row) => row.worker)
      : [...new Set(rows.flatMap((row) => [...row.keys].filter((key, i) => row.kinds[i] !== 'S')))].sort((a, b) => a - b);
    if (known.length === 0) return;
    const now = this.chosen === null ? -1 : known.indexOf(this.chosen[what]);
    const next = now < 0 ? (by > 0 ? 0 : known.length - 1) : (now + by + known.length) % known.length;
    this.choose({[what]: known[next]});
  }

  toggleLinks() {
    this.showLinks = !this.showLinks && this.timeline.links.length > 0;
    this.redraw();
  }

  togglePath() {
    this.showPath = !this.showPath;
    this.redraw();
  }

  click(event) {
    const hit = this.hit(event);
    if (!hit) return this.chosen !== null && this.choose(this.chosen);
    if (hit.span < 0) return this.choose({worker: hit.row.type === 'worker' ? hit.row.worker : hit.row.from});
    if (hit.row.kinds[hit.span] === 'V' || hit.row.kinds[hit.span] === 'S') return;
    this.choose({microbatch: hit.row.keys[hit.span]});
  }

  clearHover() {
    hideTooltip();
    if (this.overlayContext) this.overlayContext.clearRect(0, 0, this.box.clientWidth, this.height);
    this.box.dataset.hover = '';
  }

  hover(event) {
    const hit = this.hit(event);
    this.clearHover();
    if (!hit || hit.span < 0) return;
    const {row, span} = hit;
    const lines = row.type === 'worker' ? this.describeAction(row, span) : this.describeMessage(row, span);
    this.box.dataset.hover = lines[0];
    showTooltip(event, lines);
    this.outline(row, span, 2);
    if (row.type !== 'worker') return this.arrow(row, span);
    const messages = messagesOf(this.timeline, row.worker, span);
    for (const {link, index} of [...messages.read, ...messages.sent]) this.arrow(link, index);
    const before = sameBefore(row, span);
    if (before >= 0) this.outline(row, before, 1);
  }

  time(row, i) {
    const unit = this.timeline.tick_seconds;
    const [from, to] = distinctTexts([row.starts[i] * unit, row.ends[i] * unit], secondsText);
    return `${secondsText((row.ends[i] - row.starts[i]) * unit)}, from ${from} to ${to}`;
  }

  describeAction(row, i) {
    const kind = row.kinds[i];
    const title = `${ACTIONS[kind]} of stage ${row.stages[i]}` +
                  (kind === 'S' || kind === '+' ? '' : `, microbatch ${row.keys[i]}`);
    const messages = messagesOf(this.timeline, row.worker, i);
    const told = ({link, index}, way, other) =>
      `${way} ${MESSAGES[link.kinds[index]]} ${way === 'reads' ? 'from' : 'to'} worker ${other} ` +
      `(${bytesText(messageBytes(link, index))}, ` +
      `${secondsText((link.ends[index] - link.starts[index]) * this.timeline.tick_seconds)} on the link)`;
    const before = sameBefore(row, i), unit = this.timeline.tick_seconds;
    return [title, `worker ${row.worker}: ${this.time(row, i)}`,
            ...(before >= 0 ? [`needs its ${ACTIONS[row.kinds[before]]} of stage ${row.stages[before]} here, ` +
              `which ended ${secondsText((row.starts[i] - row.ends[before]) * unit)} earlier`] : []),
            ...messages.read.map((each) => told(each, 'reads', each.link.from)),
            ...messages.sent.map((each) => told(each, 'sends', each.link.to))];
  }

  describeMessage(row, i) {
    return [`${MESSAGES[row.kinds[i]]} ${row.keys[i]}, worker ${row.from} to ${row.to}`,
            `${bytesText(messageBytes(row, i))} in ${this.time(row, i)}`];
  }

  outline(row, i, width) {
    const context = this.overlayContext;
    context.strokeStyle = themeColour('ink');
    context.lineWidth = width;
    const left = Math.max(GUTTER, this.x(row.starts[i]));
    const right = Math.min(GUTTER + this.width, this.x(row.ends[i]));
    if (right > left) context.strokeRect(left, row.top - 1, Math.max(1, right - left), row.height + 2);
  }

  // From the action that sends a message, along its time on the link, to the
  // action that reads it.
  arrow(link, index) {
    const from = this.rowOf(link.from), to = this.rowOf(link.to);
    if (!from || !to) return;
    const context = this.overlayContext;
    const x0 = this.x(link.starts[index]), x1 = this.x(link.ends[index]);
    const y0 = from.top + from.height / 2, y1 = to.top + to.height / 2;
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, this.width, this.height);
    context.clip();
    context.strokeStyle = context.fillStyle = themeColour('ink');
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x0, y0);
    const middle = (y0 + y1) / 2;
    context.bezierCurveTo(x0, middle, x1, middle, x1, y1);
    context.stroke();
    const down = y1 > y0 ? -1 : 1;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 4, y1 + 8 * down);
    context.lineTo(x1 + 4, y1 + 8 * down);
    context.fill();
    context.restore();
    const row = this.rowOf(link.from, link.to);
    if (row) this.outline(row, index, 1.5);
  }
}

function button(text, title, onclick, pressed) {
  return make('button', {type: 'button', title, onclick, 'aria-pressed': pressed === undefined ? null : String(pressed)}, text);
}

// Pressed while `state()` holds, whether a click or a key changed it.
function toggle(view, text, title, act, state) {
  const element = button(text, title, act, state());
  view.box.addEventListener('drawn', () => element.setAttribute('aria-pressed', String(state())));
  return element;
}

// For one view, or for several that move together.
export function timelineToolbar(views) {
  for (const view of views) view.others = views.filter((other) => other !== view);
  const [first] = views, linked = views.find(({timeline}) => timeline.links.length > 0);
  const all = (act) => () => views.forEach(act);
  return make(
    'div', {class: 'toolbar'},
    button('\u2212', 'Zoom out (-)', () => first.zoom(1 / 1.6)), button('+', 'Zoom in (+)', () => first.zoom(1.6)),
    button('Fit', 'The whole run (0)', () => first.setRange(0, first.run)),
    linked ? toggle(linked, 'Links', 'Links as rows (L)', all((view) => view.toggleLinks()), () => linked.showLinks) : null,
    first.timeline.critical_path.kinds.length > 0
      ? toggle(first, 'Critical path', 'The chain that decides the step (C)', all((view) => view.togglePath()), () => first.showPath) : null);
}

export function timelineLegend(timelines) {
  const workers = timelines.flatMap((timeline) => timeline.workers);
  const used = new Set(workers.flatMap((worker) => [...new Set(worker.kinds)]));
  const carried = new Set(timelines.flatMap(({links}) => links.flatMap((link) => [...new Set(link.kinds)])));
  const kinds = Object.keys(ACTIONS).filter((kind) => used.has(kind)).map((kind) => [
    kind === '+' ? ACTIONS[kind] : `${kind} ${ACTIONS[kind]}`, `var(--action-${kind === '+' ? 'more' : kind})`]);
  for (const kind of 'AGK') if (carried.has(kind)) kinds.push([MESSAGES[kind], `var(--action-${kind})`, 'thin']);
  const reduces = workers.some((worker) => worker.reductions.starts.length > 0);
  if (carried.has('V') || reduces)
    kinds.push([carried.has('V') && reduces ? 'weights, all-reduce' : reduces ? 'all-reduce' : 'weights', 'var(--action-V)', 'thin']);
  if (timelines.some((timeline) => timeline.critical_path.kinds.length > 0))
    kinds.push(['critical path', 'var(--path)', 'thin']);
  return legend(kinds);
}

function workersTable(report) {
  const {simulation, memory, cluster} = report;
  const run = simulation.duration_seconds;
  const rows = simulation.devices.map((device, worker) => ({device, worker}));
  const limit = new Map(memory.map((each) => [each.worker, each.limit_bytes]));
  const share = (seconds) => percentText(run > 0 ? seconds / run : 0);
  const idle = ({device}) => Math.max(0, run - device.busy_seconds - device.waiting_for_link_seconds);
  return tableOf([
    {title: 'worker', text: (row) => `${row.worker}`, value: (row) => row.worker},
    {title: 'device', left: true, text: (row) => cluster.devices[row.device.device].name},
    {title: 'busy', text: (row) => share(row.device.busy_seconds), value: (row) => row.device.busy_seconds},
    {title: 'waits', text: (row) => share(row.device.waiting_for_link_seconds), value: (row) => row.device.waiting_for_link_seconds},
    {title: 'idle', text: (row) => share(idle(row)), value: idle},
    {title: 'peak memory', text: (row) => bytesText(row.device.memory_peak_bytes), value: (row) => row.device.memory_peak_bytes},
    {title: 'limit', text: (row) => (limit.has(row.worker) ? bytesText(limit.get(row.worker)) : '')},
  ], rows, {attributes: (row) => ({'data-worker': row.worker})});
}

export function timelinePanel(report) {
  const {timeline} = report;
  const view = new TimelineView(timeline, 'Timeline');
  const section = panel(
    'timeline', 'Timeline', doable('click: highlight a microbatch or a worker; drag: move; Ctrl+wheel or double click: zoom'),
    make('div', {class: 'bar-row'}, timelineToolbar([view]), timelineLegend([timeline])),
    timeline.thinned ? make('p', {class: 'thinned'}, `Thinned out: ${timeline.thinned}.`) : null,
    view.box, make('details', {class: 'workers'}, make('summary', {}, 'Workers as a table'), workersTable(report)));
  section.view = view;
  return section;
}
