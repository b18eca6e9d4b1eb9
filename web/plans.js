// All panels of a plan, and two plans side by side.

import {clusterPanel} from './cluster.js';
import {besidePanel} from './compare.js';
import {memoryPanel} from './memory.js';
import {modelPanel} from './model.js';
import {summaryPanel} from './summary.js';
import {TimelineView, timelinePanel, timelineToolbar} from './timeline.js';
import {secondsText} from './units.js';

export function subtitle(plan) {
  const parts = [plan.planner, plan.method, plan.schedule || 'schedule by hand', `${plan.workers} workers`,
                 `${plan.microbatches} \u00d7 ${plan.microbatch} samples`];
  return parts.filter(Boolean).join(' \u00b7 ');
}

export const planPanels = (report) => [summaryPanel(report), timelinePanel(report), memoryPanel(report),
                                       modelPanel(report), clusterPanel(report)];

// Two timelines on the scale of the longer one. Rows are those of a comparison.
export function sideBySide(rows, reports) {
  const longest = Math.max(...reports.map(({timeline}) => timeline.duration_seconds));
  const views = reports.map(({timeline}, i) => [
    `${rows[i].planner}, ${rows[i].method}: step ${secondsText(rows[i].step_seconds)}`,
    new TimelineView(timeline, rows[i].planner, {run: longest / timeline.tick_seconds})]);
  timelineToolbar(views.map(([, view]) => view));
  return besidePanel(rows[0], rows[1], views);
}
