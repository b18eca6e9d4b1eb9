// Reads the data of the page and shows its panels.

import {clusterPanel} from './cluster.js';
import {besidePanel, comparePanel} from './compare.js';
import {make} from './elements.js';
import {memoryPanel} from './memory.js';
import {modelPanel} from './model.js';
import {runPanels} from './run.js';
import {summaryPanel} from './summary.js';
import {TimelineView, timelinePanel, timelineToolbar} from './timeline.js';
import {secondsText} from './units.js';

function themeButton() {
  const root = document.documentElement;
  return make('button', {type: 'button', id: 'theme', title: 'Light or dark', onclick: () => {
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    document.dispatchEvent(new Event('themechange'));
  }}, '\u25d0');
}

function subtitle(plan) {
  const parts = [plan.planner, plan.method, plan.schedule || 'schedule by hand', `${plan.workers} workers`,
                 `${plan.microbatches} \u00d7 ${plan.microbatch} samples`];
  return parts.filter(Boolean).join(' \u00b7 ');
}

const planPanels = (report) => [summaryPanel(report), timelinePanel(report), memoryPanel(report), modelPanel(report),
                                clusterPanel(report)];

// Two timelines on the scale of the longer one.
function sideBySide(data, state) {
  const rows = [state.shown, state.beside].map((row) => data.comparison.plans[row]);
  const reports = [state.shown, state.beside].map((row) => data.plans[data.reported[row]]);
  const longest = Math.max(...reports.map(({timeline}) => timeline.duration_seconds));
  const views = reports.map(({timeline}, i) => [
    `${rows[i].planner}, ${rows[i].method}: step ${secondsText(rows[i].step_seconds)}`,
    new TimelineView(timeline, rows[i].planner, {run: longest / timeline.tick_seconds})]);
  timelineToolbar(views.map(([, view]) => view));
  return besidePanel(rows[0], rows[1], views);
}

function show(data) {
  const state = {shown: data.first ?? 0, beside: null};
  const line = make('p', {class: 'subtitle'});
  const main = make('main'), plan = make('div', {class: 'plan', id: 'plan'});
  const update = () => {
    const report = data.plans[data.comparison ? data.reported[state.shown] : 0];
    if (!report) return;
    line.textContent = subtitle(report.plan);
    const beside = data.comparison && state.beside !== null && state.beside !== state.shown ? [sideBySide(data, state)] : [];
    plan.replaceChildren(...beside, ...planPanels(report));
  };
  document.body.append(make('header', {}, make('div', {}, make('h1', {}, data.title), line), themeButton()), main,
                       make('footer', {}, `pipewright report, version ${data.version} of its data`));
  if (data.run) main.append(...runPanels(data.run).filter(Boolean));
  if (data.comparison) main.append(comparePanel(data, state, update));
  main.append(plan);
  update();
  for (const query of ['(prefers-color-scheme: dark)', 'print'])
    matchMedia(query).addEventListener('change', () => document.dispatchEvent(new Event('themechange')));
}

try {
  show(JSON.parse(document.getElementById('report-data').textContent));
  document.documentElement.dataset.ready = 'true';
} catch (error) {
  document.body.append(make('p', {class: 'failed', role: 'alert'}, `This report cannot be shown: ${error.message}`));
  throw error;
}
