// The summary: figures, sentences, and what would help.

import {make} from './elements.js';
import {bytesText, numberText, percentText, secondsText} from './units.js';
import {panel} from './panel.js';

export function figure(id, name, value, note) {
  return make('div', {class: 'figure', 'data-figure': id}, make('div', {class: 'name'}, name),
              make('div', {class: 'value'}, value), make('div', {class: 'note'}, note));
}

function figures(report) {
  const {plan, simulation, bound, memory, cluster} = report;
  const fullest = memory.reduce((best, worker) => (
    worker.peak_bytes / worker.limit_bytes > best.peak_bytes / best.limit_bytes ? worker : best), memory[0]);
  const sent = cluster.links.reduce((sum, link) => sum + link.bytes_per_step + link.reduced_bytes_per_step, 0);
  return make(
    'div', {class: 'figures'},
    figure('step', 'Step', secondsText(simulation.step_seconds), `${plan.minibatch} samples`),
    figure('speed', 'Speed', `${numberText(plan.minibatch / simulation.step_seconds)} /s`, 'samples per second'),
    figure('bubble', 'Bubble', percentText(simulation.bubble), 'of worker time'),
    figure('gap', 'Gap', bound.lower_bound_seconds > 0 ? percentText(bound.gap) : 'unknown',
           bound.lower_bound_seconds > 0 ? `above the bound, ${secondsText(bound.lower_bound_seconds)}` : 'no bound'),
    figure('memory', 'Memory', fullest ? bytesText(fullest.peak_bytes) : 'none',
           fullest ? `of ${bytesText(fullest.limit_bytes)}, worker ${fullest.worker}` : ''),
    figure('sent', 'Sent', bytesText(sent), 'between workers per step'));
}

export function sentencesOf(summary) {
  return make('dl', {class: 'sentences'}, summary.map((said) => [
    make('dt', {}, said.title), make('dd', {'data-about': said.about}, said.text)]));
}

function improvements(report) {
  const best = report.improvements.length ? report.improvements[0].saved : 1;
  const rows = report.improvements.map((each) => make(
    'li', {}, make('span', {class: 'what'}, each.what),
    make('span', {class: 'bar'}, make('i', {style: `width: ${(100 * each.saved) / best}%`})),
    make('span', {class: 'saved'}, `-${percentText(each.saved)}`),
    make('span', {class: 'step'}, secondsText(each.step_seconds))));
  if (rows.length === 0) return null;
  return make('div', {class: 'improvements'}, make('h3', {}, 'Step time after a change, simulated'),
              make('ul', {}, rows));
}

export function summaryPanel(report, title = 'Summary') {
  return panel('summary', title, '', figures(report),
               make('div', {class: 'columns'}, sentencesOf(report.summary), improvements(report)));
}
