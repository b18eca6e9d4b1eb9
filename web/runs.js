// Runs that `serve` watches: laid over each other, and one of them in detail.
// They are asked for again while the page is seen.

import {ask} from './ask.js';
import {curveChart} from './curves.js';
import {make, tableOf} from './elements.js';
import {stageColour} from './palette.js';
import {doable, panel} from './panel.js';
import {planPanels} from './plans.js';
import {runPanels} from './run.js';
import {numberText, percentText, secondsText} from './units.js';

const WATCHING_MS = 1000;
const lastOf = (list) => (list.length > 0 ? list[list.length - 1] : null);

function lineOf(run, i, steps, values, dots) {
  return {name: run.folder, colour: stageColour(i), steps, values, dots};
}

// Loss, speed and accuracy of all runs.
function overlaid(runs) {
  const known = runs.map((run, i) => ({run, i})).filter(({run}) => run && run.curves.steps.length > 0);
  if (known.length === 0) return null;
  const charts = [
    curveChart('all-loss', 'Loss', known.map(({run, i}) => lineOf(run, i, run.curves.steps, run.curves.loss))),
    curveChart('all-speed', 'Samples per second',
               known.map(({run, i}) => lineOf(run, i, run.curves.steps, run.curves.samples_per_second)))];
  const evaluated = known.filter(({run}) => run.curves.evaluations.some((each) => each.accuracy !== undefined));
  if (evaluated.length > 0) charts.push(curveChart('all-accuracy', 'Accuracy, held out', evaluated.map(({run, i}) => lineOf(
    run, i, run.curves.evaluations.map((each) => each.step), run.curves.evaluations.map((each) => each.accuracy ?? null), true)),
    percentText));
  return make('div', {class: 'curve-grid'}, charts);
}

function runsTable(names, watched, shown, choose) {
  const rows = names.map((name, i) => ({name, i, run: watched[i].run, error: watched[i].error}));
  const text = (value, words) => (value === null || value === undefined ? '' : words(value));
  const of = (row, read) => (row.run ? read(row.run) : null);
  return tableOf([
    {title: 'run', left: true, text: (row) => [make('i', {class: 'swatch', style: `--colour: ${stageColour(row.i)}`}), row.name]},
    {title: 'state', left: true, text: (row) => (row.run ? row.run.state : row.error || 'not read yet')},
    {title: 'step', text: (row) => text(of(row, (run) => lastOf(run.curves.steps)), numberText)},
    {title: 'loss', text: (row) => text(of(row, (run) => lastOf(run.curves.loss)), (loss) => numberText(loss, 4))},
    {title: 'time per step', text: (row) => text(of(row, (run) => run.step_seconds || null), secondsText)},
    {title: 'accuracy', text: (row) => text(of(row, (run) => (lastOf(run.curves.evaluations) || {}).accuracy), percentText)},
  ], rows, {onrow: (row) => choose(row.i),
            attributes: (row) => ({'data-run': row.i, tabindex: 0, class: `can${row.i === shown ? ' shown' : ''}`})});
}

// Puts new panels in the place of old ones. A timeline stays as it is while it
// has not changed, or the pointer is on it.
function renew(box, run, last) {
  const panels = runPanels(run).filter(Boolean);
  const old = box.querySelector('#steps');
  const isSame = old && last && JSON.stringify(last.measured) === JSON.stringify(run.measured) &&
    JSON.stringify(last.predicted) === JSON.stringify(run.predicted);
  const keeps = old && last && last.folder === run.folder && (isSame || old.matches(':hover'));
  if (!keeps) return box.replaceChildren(...panels);
  [...box.children].filter((child) => child !== old).forEach((child) => child.remove());
  const at = panels.findIndex((each) => each.id === 'steps');
  old.before(...panels.slice(0, at < 0 ? panels.length : at));
  if (at >= 0) old.after(...panels.slice(at + 1));
}

// Shows the plan in `box` when it is asked for: to explain it takes time.
function planButton(number, box) {
  const button = make('button', {type: 'button', id: 'explain', onclick: async () => {
    button.disabled = true;
    button.textContent = 'Simulating ...';
    try {
      const {plans} = await ask(`run/${number}/plan`);
      if (button.isConnected) box.replaceChildren(...planPanels(plans[0], 'The plan'));
    } catch (error) {
      button.textContent = error.message;
    }
  }}, 'Explain the plan: why, what would help, memory, model, cluster');
  return button;
}

export function runsView(names) {
  const watched = names.map(() => ({version: -1, run: null, error: ''}));
  const overview = make('div', {class: 'plan'}), detail = make('div', {class: 'plan', id: 'watched'});
  const plan = make('div', {class: 'plan', id: 'watched-plan'});
  let shown = 0, drawn = null;

  const draw = () => {
    if (names.length > 1) overview.replaceChildren(panel(
      'runs', 'Runs', doable('click one to see it below'), runsTable(names, watched, shown, choose), overlaid(watched.map(({run}) => run))));
    const {run, error} = watched[shown];
    if (run) renew(detail, run, drawn && drawn.folder === run.folder ? drawn : null);
    else detail.replaceChildren(panel('run', 'The run', names[shown], make('p', {role: 'status'}, error || 'Reading ...')));
    if (!drawn || !run || drawn.folder !== run.folder || drawn.has_costs !== run.has_costs)
      plan.replaceChildren(...(run && run.has_costs ? [planButton(shown, plan)] : []));
    drawn = run;
    document.documentElement.dataset.runs = watched.map(({run: each}) => (each ? each.state : 'unknown')).join(' ');
  };
  const choose = (number) => {
    shown = number;
    draw();
  };
  const look = async (number) => {
    const mine = watched[number], before = mine.error;
    try {
      const {version, run} = await ask(`run/${number}?seen=${mine.version}`);
      Object.assign(mine, {version, error: ''}, run ? {run} : {});
      return Boolean(run) || before !== '';
    } catch (error) {
      mine.error = error.message;
      return mine.error !== before;
    }
  };
  const watch = async () => {
    if (!document.hidden) {
      const changed = await Promise.all(names.map((name, number) => look(number)));
      const silent = watched.map(({error}) => error).find(Boolean);
      status.textContent = silent && watched[shown].run ? `Last known state: ${silent}` : '';
      if (changed.some(Boolean)) draw();
    }
    setTimeout(watch, WATCHING_MS);
  };
  const status = make('p', {class: 'thinned', role: 'status', id: 'watching'});
  draw();
  watch();
  return [status, overview, detail, plan];
}
