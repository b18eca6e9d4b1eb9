// Reads the data of the page and shows its panels.

import {comparePanel} from './compare.js';
import {make} from './elements.js';
import {planPanels, sideBySide, subtitle} from './plans.js';
import {runPanels} from './run.js';
import {runsView} from './runs.js';
import {planningView} from './serve.js';

function themeButton() {
  const root = document.documentElement;
  return make('button', {type: 'button', id: 'theme', title: 'Light or dark', onclick: () => {
    const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    document.dispatchEvent(new Event('themechange'));
  }}, '\u25d0');
}

// The form, and the runs if there are any. A search takes cores that a run may
// need: with runs it starts when the form is asked for.
function liveViews(data, plan, line) {
  if (data.runs.length === 0) return planningView(data.serve, plan, line);
  const runs = make('div', {class: 'plan'}, runsView(data.runs)), planning = make('div', {class: 'plan', hidden: true});
  const choose = (isPlanning) => {
    if (isPlanning && !planning.firstChild) planning.append(...planningView(data.serve, plan, line));
    runs.hidden = isPlanning;
    planning.hidden = plan.hidden = line.hidden = !isPlanning;
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', String((i === 1) === isPlanning)));
  };
  const buttons = [['Runs', false], ['Plan', true]].map(([name, isPlanning]) => make(
    'button', {type: 'button', id: `show-${name.toLowerCase()}`, onclick: () => choose(isPlanning)}, name));
  choose(false);
  return [make('nav', {class: 'toolbar'}, buttons), runs, planning];
}

function show(data) {
  const state = {shown: data.first ?? 0, beside: null};
  const line = make('p', {class: 'subtitle'});
  const main = make('main'), plan = make('div', {class: 'plan', id: 'plan'});
  const update = () => {
    const reportOf = (row) => data.plans[data.comparison ? data.reported[row] : 0];
    const report = reportOf(state.shown);
    if (!report) return;
    line.textContent = subtitle(report.plan);
    const rows = data.comparison && state.beside !== null && state.beside !== state.shown ? [state.shown, state.beside] : [];
    const beside = rows.length > 0 ? [sideBySide(rows.map((row) => data.comparison.plans[row]), rows.map(reportOf))] : [];
    plan.replaceChildren(...beside, ...planPanels(report, data.run ? 'The plan' : 'Summary'));
  };
  document.body.append(make('header', {}, make('div', {}, make('h1', {}, data.title), line), themeButton()), main,
                       make('footer', {}, `pipewright report, version ${data.version} of its data`));
  if (data.serve) main.append(...liveViews(data, plan, line));
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
