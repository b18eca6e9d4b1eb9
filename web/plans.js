// All panels of a plan, and two plans side by side.

import {clusterPanel} from './cluster.js';
import {besidePanel} from './compare.js';
import {make} from './elements.js';
import {memoryPanel} from './memory.js';
import {modelPanel} from './model.js';
import {summaryPanel} from './summary.js';
import {TimelineView, timelineLegend, timelinePanel, timelineToolbar} from './timeline.js';
import {secondsText} from './units.js';

export function subtitle(plan) {
  const parts = [plan.planner, plan.method, plan.schedule || 'own schedule', plan.workers === 1 ? '1 worker' : `${plan.workers} workers`,
                 `${plan.microbatches} \u00d7 ${plan.microbatch} samples`];
  return parts.filter(Boolean).join(' \u00b7 ');
}

export const planPanels = (report, title) => [summaryPanel(report, title), timelinePanel(report), memoryPanel(report),
                                              modelPanel(report), clusterPanel(report)];

// Two timelines on the scale of the longer one. Rows are those of a comparison.
export function sideBySide(rows, reports) {
  const durations = reports.map(({timeline}) => timeline.duration_seconds);
  const longest = Math.max(...durations), shortest = Math.min(...durations);
  const views = reports.map(({timeline}, i) => [
    `${rows[i].planner}, ${rows[i].method}: step ${secondsText(rows[i].step_seconds)}`,
    new TimelineView(timeline, rows[i].planner, {run: longest / timeline.tick_seconds})]);
  // Of an asynchronous plan several steps are drawn: at first as much as two of the other's.
  if (longest > 3 * shortest) views.forEach(([, view]) => view.moveTo(0, (2 * shortest) / view.timeline.tick_seconds));
  const bar = make('div', {class: 'bar-row'}, timelineToolbar(views.map(([, view]) => view)),
                   timelineLegend(reports.map(({timeline}) => timeline)));
  return besidePanel(rows[0], rows[1], bar, views);
}
