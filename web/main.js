// Reads the data of the page and shows its panels.

import {clusterPanel} from './cluster.js';
import {make} from './elements.js';
import {memoryPanel} from './memory.js';
import {modelPanel} from './model.js';
import {summaryPanel} from './summary.js';
import {timelinePanel} from './timeline.js';

function themeButton() {
  const root = document.documentElement;
  return make('button', {type: 'button', id: 'theme', title: 'Light or dark', onclick: () => {
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    document.dispatchEvent(new Event('themechange'));
  }}, '\u25d0');
}

function header(data, plan) {
  const parts = [plan.planner, plan.method, plan.schedule || 'schedule by hand', `${plan.workers} workers`,
                 `${plan.microbatches} \u00d7 ${plan.microbatch} samples`];
  return make('header', {}, make('div', {}, make('h1', {}, data.title),
                                 make('p', {class: 'subtitle'}, parts.filter(Boolean).join(' \u00b7 '))), themeButton());
}

function show(data) {
  const report = data.plans[0];
  document.body.append(
    header(data, report.plan),
    make('main', {}, summaryPanel(report), timelinePanel(report), memoryPanel(report), modelPanel(report),
         clusterPanel(report)),
    make('footer', {}, `pipewright report, version ${data.version} of its data`));
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
