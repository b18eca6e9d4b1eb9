// The cluster: workers in a row, arcs for what their links carry in a step
// (towards later workers above, back below), and the links as a table.

import {drawn, make, tableOf} from './elements.js';
import {hideTooltip, panel, redrawn, showTooltip} from './panel.js';
import {bytesText, percentText, rateText, secondsText} from './units.js';

const MAX_DRAWN = 64;
const carried = (link) => link.bytes_per_step + link.reduced_bytes_per_step;

function linkLines(link) {
  return [`worker ${link.from} to ${link.to}`,
          `${bytesText(carried(link))} per step` +
            (link.reduced_bytes_per_step > 0 ? `, ${bytesText(link.reduced_bytes_per_step)} of it all-reduce` : ''),
          link.bandwidth === null ? 'same device' : `${rateText(link.bandwidth)}, latency ${secondsText(link.latency_seconds)}`,
          `busy ${percentText(link.busy_share)} of the time`,
          ...(link.shares.length ? [`shares ${link.shares.join(', ')}`] : [])];
}

function tipped(element, lines) {
  element.addEventListener('pointermove', (event) => showTooltip(event, lines));
  element.addEventListener('pointerleave', hideTooltip);
  return element;
}

function arcs(devices, links, available) {
  const space = Math.max(18, Math.min(150, available / devices.length));
  const width = space * devices.length, radius = Math.min(20, space / 2 - (space < 34 ? 1.5 : 5));
  const far = links.reduce((most, link) => Math.max(most, Math.abs(link.from - link.to)), 1);
  const tall = Math.min(130, 38 + 20 * far);
  const named = space >= 70;
  const middle = tall, height = 2 * tall + (named ? 18 : 4) + (hostsOf(devices).length ? 18 : 0);
  const most = links.reduce((max, link) => Math.max(max, carried(link)), 1);
  const place = new Map(devices.map((device, i) => [device.worker, space * (i + 0.5)]));
  const svg = drawn('svg', {viewBox: `0 0 ${width} ${height}`, class: radius < 12 ? 'arcs many' : 'arcs', role: 'img',
                            style: `max-width: ${Math.round(width)}px`,
                            'aria-label': 'Workers and what their links carry; the table below has the figures'});
  for (const link of links) {
    const x0 = place.get(link.from), x1 = place.get(link.to);
    if (x0 === undefined || x1 === undefined) continue;
    const up = x1 > x0 ? -1 : 1;
    const edge = middle + up * radius * 0.8;
    const peak = middle + up * (radius + (tall - radius - 8) * Math.sqrt(Math.abs(link.from - link.to) / far) * 1.25);
    svg.append(tipped(drawn('path', {
      d: `M${x0} ${edge}C${x0} ${peak} ${x1} ${peak} ${x1} ${edge}`, class: 'arc',
      'stroke-width': (1.5 + Math.min(8, space / 8) * (carried(link) / most)).toFixed(1),
      'stroke-opacity': (0.35 + 0.6 * link.busy_share).toFixed(2)}), linkLines(link)));
  }
  devices.forEach((device, i) => svg.append(node(device, space * (i + 0.5), middle, radius)));
  if (named) devices.forEach((device, i) => svg.append(drawn(
    'text', {x: space * (i + 0.5), y: 2 * tall + 10, class: 'device'}, device.name)));
  hostsOf(devices).forEach(([host, first, end]) => svg.append(drawn(
    'text', {x: (space * (first + end)) / 2, y: height - 6, class: 'host'}, `host ${host}`)));
  return svg;
}

function hostsOf(devices) {
  const hosts = [];
  devices.forEach((device, i) => {
    const last = hosts[hosts.length - 1];
    if (last && last[0] === device.host) last[2] = i + 1;
    else hosts.push([device.host, i, i + 1]);
  });
  return hosts.length > 1 ? hosts : [];
}

// A disc that is filled as far as the device is busy.
function node(device, x, y, radius) {
  const share = Math.min(1, device.busy_share || 0);
  const round = 2 * Math.PI * (radius - 3);
  const disc = drawn(
    'g', {class: 'node'}, drawn('circle', {cx: x, cy: y, r: radius}),
    drawn('circle', {cx: x, cy: y, r: radius - 3, class: 'busy', 'stroke-dasharray': `${share * round} ${round}`,
                     transform: `rotate(-90 ${x} ${y})`}),
    drawn('text', {x, y: y + 4}, `${device.worker}`));
  return tipped(disc, [`worker ${device.worker} on ${device.name}`, `busy ${percentText(share)} of the time`,
                       `${device.kind}, ${bytesText(device.memory_bytes)}, host ${device.host}`]);
}

function linksTable(links) {
  const reduces = links.some((link) => link.reduced_bytes_per_step > 0);
  return tableOf([
    {title: 'link', left: true, text: (link) => `${link.from} \u2192 ${link.to}`, value: (link) => link.from},
    {title: 'per step', text: (link) => bytesText(carried(link)), value: carried},
    ...(reduces ? [{title: 'all-reduce', value: (link) => link.reduced_bytes_per_step,
                    text: (link) => (link.reduced_bytes_per_step ? bytesText(link.reduced_bytes_per_step) : '')}] : []),
    {title: 'busy', text: (link) => percentText(link.busy_share), value: (link) => link.busy_share},
    {title: 'bandwidth', text: (link) => (link.bandwidth === null ? 'same device' : rateText(link.bandwidth)),
     value: (link) => link.bandwidth ?? Infinity},
    {title: 'latency', text: (link) => secondsText(link.latency_seconds), value: (link) => link.latency_seconds},
  ], links, {attributes: (link) => ({'data-link': `${link.from}-${link.to}`})});
}

export function clusterPanel(report) {
  const {cluster} = report;
  const used = cluster.devices.filter((device) => device.worker >= 0).sort((a, b) => a.worker - b.worker);
  const unused = cluster.devices.length - used.length;
  const drawing = make('div', {class: 'cluster-box'});
  if (used.length <= MAX_DRAWN) redrawn(drawing, (width) => drawing.replaceChildren(arcs(used, cluster.links, width)));
  else drawing.append(make('p', {class: 'thinned'}, `${used.length} workers are too many to draw; the table has the links.`));
  const table = cluster.links.length > 0 ? linksTable(cluster.links) : make('p', {}, 'Nothing is sent between workers.');
  return panel('cluster', 'Cluster', `${cluster.name}; ring: share of time busy; line: bytes per step` +
               (unused > 0 ? `; ${unused} of ${cluster.devices.length} devices are not used` : ''),
               make('div', {class: used.length > 16 ? null : 'cluster-columns'}, drawing,
                    make('div', {class: 'tall-table'}, table)));
}
