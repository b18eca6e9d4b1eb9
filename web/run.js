// A run: what it did in words, its curves, and the measured timeline of its last
// step above the predicted one.

import {curveChart} from './curves.js';
import {make, tableOf} from './elements.js';
import {ACTIONS, stageColour} from './palette.js';
import {panel} from './panel.js';
import {figure, sentencesOf} from './summary.js';
import {TimelineView, timelineLegend, timelineToolbar} from './timeline.js';
import {bytesText, numberText, percentText, secondsText} from './units.js';

const BLUE = '#3d8fc9', ORANGE = '#e69f00', GREEN = '#009e73';

function runCurves({curves}) {
  const line = (name, colour, key) => ({name, colour, steps: curves.steps, values: curves[key]});
  const evaluated = (name, key) => ({
    name, colour: ORANGE, dots: true, steps: curves.evaluations.map((each) => each.step),
    values: curves.evaluations.map((each) => each[key] ?? null)});
  const loss = [line('loss', BLUE, 'loss')];
  if (curves.evaluations.length > 0) loss.push(evaluated('held out', 'loss'));
  const charts = [curveChart('loss', 'Loss', loss)];
  if (curves.evaluations.some((each) => each.accuracy !== undefined))
    charts.push(curveChart('accuracy', 'Accuracy, held out', [evaluated('accuracy', 'accuracy')], percentText));
  charts.push(curveChart('speed', 'Samples per second', [line('samples per second', GREEN, 'samples_per_second')]),
              curveChart('bubble', 'Bubble', [line('bubble', GREEN, 'bubble')], percentText),
              curveChart('rate', 'Learning rate', [line('learning rate', BLUE, 'rate')]));
  return make('div', {class: 'curve-grid'}, charts);
}

// Over the pieces of training: one line per worker or stage.
function pieceChart(id, title, {steps}, lines, text) {
  return curveChart(id, title, lines.map(({name, values}, i) => ({name, values, steps, colour: stageColour(i)})), text);
}

function shareBar(share) {
  return make('span', {class: 'share'}, make('i', {style: `width: ${Math.min(100, 100 * (share ?? 0))}%`}));
}

function workersPanel({workers, stages, pieces}) {
  if (workers.length === 0) return null;
  const stale = stages.some((stage) => stage.staleness > 0);
  const charts = [pieceChart('busy', 'Busy', pieces, pieces.busy, percentText),
                  pieceChart('memory', 'Memory of the tensors, peak', pieces, pieces.memory, bytesText)];
  if (stale) charts.push(pieceChart('rates', 'Learning rate of each stage', pieces, pieces.rates));
  const table = tableOf([
    {title: 'worker', text: (row) => `${row.worker}`, value: (row) => row.worker},
    {title: '', left: true, text: (row) => shareBar(row.busy)},
    {title: 'busy', text: (row) => (row.busy === null ? '' : percentText(row.busy)), value: (row) => row.busy},
    {title: 'memory', text: (row) => (row.memory_bytes === null ? '' : bytesText(row.memory_bytes)), value: (row) => row.memory_bytes},
  ], workers, {attributes: (row) => ({'data-worker': row.worker})});
  const stagesTable = stale ? tableOf([
    {title: 'stage', text: (row) => `${row.stage}`, value: (row) => row.stage},
    {title: 'staleness', text: (row) => `${numberText(row.staleness)} steps`, value: (row) => row.staleness},
    {title: 'learning rate', text: (row) => numberText(row.rate), value: (row) => row.rate},
  ], stages, {attributes: (row) => ({'data-stage': row.stage})}) : null;
  return panel('run-workers', stale ? 'Workers and stages' : 'Workers', 'in the last piece of training',
               make('div', {class: 'curve-grid'}, make('div', {class: 'tall-table'}, table), stagesTable, charts));
}

function warningsPanel({warnings}) {
  if (warnings.length === 0) return null;
  return panel('warnings', 'Warnings and faults', 'the newest first', make('ul', {class: 'warnings'}, [...warnings].reverse().map((each) => make(
    'li', {}, each.text.includes(`step ${each.step}`) ? each.text : [make('b', {}, `step ${numberText(each.step)}`), ` ${each.text}`]))));
}

function differencesTable(differences) {
  const error = (row) => row.measured_seconds - row.predicted_seconds;
  return tableOf([
    {title: 'worker', text: (row) => `${row.worker}`, value: (row) => row.worker},
    {title: 'action', left: true, text: (row) => `${ACTIONS[row.kind]} of stage ${row.stage}` +
      (row.kind === 'S' ? '' : `, microbatch ${row.microbatch}`)},
    {title: 'predicted', text: (row) => secondsText(row.predicted_seconds), value: (row) => row.predicted_seconds},
    {title: 'measured', text: (row) => secondsText(row.measured_seconds), value: (row) => row.measured_seconds},
    {title: 'difference', text: (row) => `${error(row) < 0 ? '-' : '+'}${secondsText(Math.abs(error(row)))}`, value: error},
  ], differences);
}

// Both on the scale of the longer one; the largest differences are outlined.
function timelines(run) {
  const known = [['Measured', run.measured], ['Predicted', run.predicted]].filter(([, timeline]) => timeline);
  const longest = Math.max(...known.map(([, timeline]) => timeline.duration_seconds));
  const marked = run.differences || [];
  const views = known.map(([name, timeline]) => new TimelineView(
    timeline, name, {marked, links: false, run: longest / timeline.tick_seconds}));
  const isEarlier = known.some(([, timeline]) => timeline.workers.some(({kinds, microbatches}) => (
    microbatches.some((microbatch, i) => microbatch < 0 && kinds[i] !== 'S'))));
  const hints = [...(marked.length > 0 ? ['outlined: the largest differences'] : []),
                 ...(isEarlier ? ['numbers below 0: microbatches of the step before'] : [])];
  const title = `A ${run.measured ? 'recent ' : ''}step: ${known.map(([name]) => name.toLowerCase()).join(' and ')}`;
  return panel('steps', title, hints.join('; '),
               make('div', {class: 'bar-row'}, timelineToolbar(views), timelineLegend(known.map(([, timeline]) => timeline))),
               known.map(([name, timeline], i) => [
                 make('h3', {}, `${name}: ${secondsText(timeline.duration_seconds)} from its first action to its last`), views[i].box]),
               marked.length > 0 ? make(
                 'details', {}, make('summary', {}, 'The largest differences as a table'), differencesTable(marked)) : null);
}

function runFigures(run) {
  const {curves} = run;
  const last = (list) => list[list.length - 1];
  const loss = last(curves.loss), evaluation = last(curves.evaluations);
  const list = [
    figure('steps', 'Steps', numberText(last(curves.steps) ?? 0),
           run.steps ? `of ${numberText(run.steps)}, ${run.minibatch} samples each` : `${run.minibatch} samples each`),
    figure('loss', 'Loss', loss === null || loss === undefined ? 'none' : numberText(loss, 4), 'of the last step'),
    figure('measured', 'Step', run.step_seconds > 0 ? secondsText(run.step_seconds) : 'none', 'measured, median')];
  if (run.predicted_seconds) list.push(
    figure('predicted', 'Predicted', secondsText(run.predicted_seconds), 'by the simulator'));
  if (run.predicted_seconds && run.step_seconds > 0) list.push(
    figure('error', 'Error', percentText(run.predicted_seconds / run.step_seconds - 1), 'of the measured step'));
  if (evaluation && evaluation.accuracy !== undefined)
    list.push(figure('accuracy', 'Accuracy', percentText(evaluation.accuracy), 'held out'));
  return make('div', {class: 'figures'}, list);
}

export function runPanels(run) {
  const {curves} = run;
  const thinned = curves.num_steps > curves.steps.length
    ? make('p', {class: 'thinned'}, `Thinned out: ${curves.steps.length} of ${curves.num_steps} steps are drawn.`) : null;
  return [
    panel('run', 'The run', run.folder, runFigures(run), sentencesOf(run.summary)),
    warningsPanel(run), curves.steps.length > 0 ? panel('curves', 'Over the steps', '', thinned, runCurves(run)) : null,
    workersPanel(run), run.measured || run.predicted ? timelines(run) : null];
}
