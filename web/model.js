// The model along its cuts: what each layer costs forward (up) and backward
// (down), coloured by its stage, and the bytes that cross after each layer.

import {make, tableOf} from './elements.js';
import {inkOn, stageColour, themeColour} from './palette.js';
import {hideTooltip, panel, redrawn, showTooltip, sizeCanvas} from './panel.js';
import {bytesText, countText, secondsText} from './units.js';

const BARS = 190, CROSSING = 64, BAND = 20, LEFT = 74;

// Runs of neighbouring layers that are of one stage: [stage, first, end].
function runsOf(layers, key) {
  const runs = [];
  layers.forEach((layer, i) => {
    const last = runs[runs.length - 1];
    if (last && last[0] === layer[key]) last[2] = i + 1;
    else runs.push([layer[key], i, i + 1]);
  });
  return runs;
}

class ModelView {
  constructor(model) {
    this.model = model;
    this.layers = model.layers;
    const most = (key) => this.layers.reduce((max, layer) => Math.max(max, layer[key]), 0);
    this.mostForward = most('forward_seconds');
    this.mostBackward = most('backward_seconds');
    const both = this.mostForward + this.mostBackward || 1;
    this.pixelsPerSecond = BARS / both;
    this.zero = BAND + 4 + this.mostForward * this.pixelsPerSecond;
    this.mostBytes = most('crossing_bytes') || 1;
    this.canvas = make('canvas', {role: 'img', 'aria-label':
      `${model.num_layers} layers in ${model.stages.length} stages; the table below has the figures`});
    this.box = make('div', {class: 'model-box'}, this.canvas);
    this.draw = redrawn(this.box, (width) => this.redraw(width));
    this.canvas.addEventListener('pointermove', (event) => this.hover(event));
    this.canvas.addEventListener('pointerleave', hideTooltip);
  }

  redraw(width) {
    const height = 2 * BAND + BARS + CROSSING + 32;
    const context = sizeCanvas(this.canvas, width, height);
    this.unit = (width - LEFT - 2) / this.layers.length;
    this.drawBands(context, 'forward_stage', 0);
    this.drawBars(context);
    this.drawBands(context, 'backward_stage', BAND + BARS + 12);
    this.drawCrossing(context, 2 * BAND + BARS + 24);
    this.drawLabels(context);
  }

  drawBands(context, key, top) {
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const [stage, first, end] of runsOf(this.layers, key)) {
      const x = LEFT + first * this.unit, width = (end - first) * this.unit;
      context.fillStyle = stageColour(stage);
      context.fillRect(x, top, Math.max(0.5, width - 1), BAND - 4);
      const text = width > 62 ? `stage ${stage}` : `${stage}`;
      if (context.measureText(text).width + 4 > width) continue;
      context.fillStyle = inkOn(stageColour(stage));
      context.fillText(text, x + width / 2, top + BAND / 2 - 1.5);
    }
  }

  drawBars(context) {
    const gap = this.unit > 4 ? 1 : 0;
    this.layers.forEach((layer, i) => {
      const x = LEFT + i * this.unit, width = Math.max(0.5, this.unit - gap);
      const up = layer.forward_seconds * this.pixelsPerSecond;
      const down = layer.backward_seconds * this.pixelsPerSecond;
      context.fillStyle = stageColour(layer.forward_stage);
      context.fillRect(x, this.zero - up, width, up);
      context.fillStyle = stageColour(layer.backward_stage);
      context.fillRect(x, this.zero + 1, width, down);
    });
    context.fillStyle = themeColour('line');
    context.fillRect(LEFT, this.zero, this.layers.length * this.unit, 1);
  }

  drawCrossing(context, top) {
    const bottom = top + CROSSING;
    context.fillStyle = themeColour('area');
    context.beginPath();
    context.moveTo(LEFT + this.unit / 2, bottom);
    this.layers.forEach((layer, i) => {
      const y = bottom - (layer.crossing_bytes / this.mostBytes) * (CROSSING - 4);
      context.lineTo(LEFT + (i + 0.5) * this.unit, y);
      context.lineTo(LEFT + Math.min(i + 1.5, this.layers.length) * this.unit, y);
    });
    context.lineTo(LEFT + this.layers.length * this.unit, bottom);
    context.fill();
    this.drawCuts(context, top, bottom);
  }

  drawCuts(context, top, bottom) {
    context.strokeStyle = themeColour('ink');
    context.setLineDash([3, 3]);
    for (const [, , end] of runsOf(this.layers, 'forward_stage').slice(0, -1)) {
      const x = LEFT + end * this.unit - 0.5;
      context.beginPath();
      context.moveTo(x, top - 4);
      context.lineTo(x, bottom);
      context.stroke();
    }
    context.setLineDash([]);
  }

  drawLabels(context) {
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.fillStyle = themeColour('muted');
    const label = (name, most, y) => {
      context.fillText(name, LEFT - 10, y - 7);
      context.fillText(`\u2264 ${most}`, LEFT - 10, y + 7);
    };
    const bottom = BAND + 4 + BARS;
    label('forward', secondsText(this.mostForward), Math.max(BAND + 14, (BAND + this.zero) / 2));
    label('backward', secondsText(this.mostBackward), Math.min(bottom - 12, (this.zero + bottom) / 2));
    label('crossing', bytesText(this.mostBytes), 2 * BAND + BARS + 24 + CROSSING / 2);
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const i = Math.floor((event.clientX - box.left - LEFT) / this.unit);
    const layer = this.layers[i];
    if (!layer) return hideTooltip();
    const stages = layer.forward_stage === layer.backward_stage ? `stage ${layer.forward_stage}`
      : `forward in stage ${layer.forward_stage}, backward in stage ${layer.backward_stage}`;
    showTooltip(event, [
      layer.kind ? `${layer.name} (${layer.kind})` : layer.name, stages,
      `forward ${secondsText(layer.forward_seconds)}, backward ${secondsText(layer.backward_seconds)}`,
      `parameters ${bytesText(layer.parameter_bytes)}, output ${bytesText(layer.output_bytes)}`,
      `${bytesText(layer.crossing_bytes)} cross a cut after it`]);
  }
}

function stagesTable(model, cluster) {
  const deviceOf = new Map(cluster.devices.filter((each) => each.worker >= 0).map((each) => [each.worker, each.name]));
  const rows = model.stages.map((stage, index) => ({stage, index}));
  const devices = ({stage}) => {
    const names = stage.workers.slice(0, 4).map((worker) => deviceOf.get(worker) ?? `worker ${worker}`);
    return names.join(' ') + (stage.workers.length > 4 ? ` and ${stage.workers.length - 4} more` : '');
  };
  const layersText = ({stage}) => (stage.forward_layers === stage.backward_layers ? countText(stage.forward_layers)
    : `${countText(stage.forward_layers)}, backward ${countText(stage.backward_layers)}`);
  return tableOf([
    {title: 'stage', text: ({stage, index}) => [
      make('i', {class: 'swatch', style: `--colour: ${stageColour(index)}`}), `${index}`], value: (row) => row.index},
    {title: 'layers', text: layersText, value: (row) => row.stage.forward_layers},
    {title: 'forward', text: (row) => secondsText(row.stage.forward_seconds), value: (row) => row.stage.forward_seconds},
    {title: 'backward', text: (row) => secondsText(row.stage.backward_seconds), value: (row) => row.stage.backward_seconds},
    {title: 'parameters', text: (row) => bytesText(row.stage.parameter_bytes), value: (row) => row.stage.parameter_bytes},
    {title: 'devices', left: true, text: devices},
    {title: '', left: true, text: (row) => (row.stage.recompute ? 'recompute' : '')},
  ], rows, {attributes: (row) => ({'data-stage': row.index})});
}

export function modelPanel(report) {
  const {model} = report;
  const view = new ModelView(model);
  const merged = model.layers_per_bar > 1
    ? make('p', {class: 'thinned'}, `Thinned out: a bar is ${model.layers_per_bar} layers.`) : null;
  return panel('model', 'The model along its cuts',
               `${countText(model.num_layers)} layers, parameters ${bytesText(model.parameter_bytes)}; per microbatch`,
               merged, view.box, make('div', {class: 'tall-table'}, stagesTable(model, report.cluster)));
}
