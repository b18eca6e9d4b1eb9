// Draws the rows of a timeline between two times. Where more spans are visible
// than a row has pixels for, each pixel gets the mean colour of what it covers:
// so that the time to draw depends on the width of the window, not on the run.

import {actionColours, inkOn, rgb, themeColour} from './palette.js';
import {firstAfter} from './timeline_data.js';

export const GUTTER = 96;  // left of the rows, for their names
// Per span; below that, pixels instead of boxes. Without labels there is less
// to see of a box.
const DENSE_PIXELS = 6, DENSE_PIXELS_UNLABELLED = 14;
const DIMMED = 0.16;

function dimmed(row, i, chosen) {
  if (chosen === null) return false;
  if (chosen.microbatch !== undefined) return row.keys[i] !== chosen.microbatch || row.kinds[i] === 'S';
  return row.type === 'worker' ? row.worker !== chosen.worker
                               : row.from !== chosen.worker && row.to !== chosen.worker;
}

const hasLabels = (row) => row.type === 'worker' && row.height >= 13;

function drawBoxes(context, row, view, first, last) {
  const scale = view.width / (view.to - view.from);
  const labels = hasLabels(row);
  context.font = `${Math.min(11, row.height - 4)}px system-ui, sans-serif`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (let i = first; i < last; ++i) {
    const x = GUTTER + (row.starts[i] - view.from) * scale;
    const width = (row.ends[i] - row.starts[i]) * scale;
    const left = Math.max(GUTTER, x), right = Math.min(GUTTER + view.width, x + width);
    if (right <= left) continue;
    const colour = view.colours[row.kinds[i]];
    context.globalAlpha = dimmed(row, i, view.chosen) ? DIMMED : 1;
    context.fillStyle = colour;
    context.fillRect(left, row.top, Math.max(0.7, right - left - 0.6), row.height);
    const text = row.kinds[i] === 'S' ? 'S' : row.kinds[i] + row.keys[i];
    if (!labels || right - left < 7 * text.length + 3) continue;
    context.fillStyle = inkOn(colour);
    context.fillText(text, (left + right) / 2, row.top + row.height / 2 + 0.5);
  }
  context.globalAlpha = 1;
}

// The colours of one row of pixels, as red, green, blue and coverage.
function addPixels(row, view, first, width, colours, sums) {
  const {codes, starts, ends} = row;
  const scale = width / (view.to - view.from);
  sums.fill(0);
  for (let i = first; i < starts.length && starts[i] < view.to; ++i) {
    const start = Math.max(0, (starts[i] - view.from) * scale);
    const end = Math.min(width, (ends[i] - view.from) * scale);
    const weight = view.chosen !== null && dimmed(row, i, view.chosen) ? DIMMED : 1;
    const colour = 3 * codes[i];
    for (let x = start | 0; x < end; ++x) {
      const cover = weight * (Math.min(end, x + 1) - Math.max(start, x));
      sums[4 * x] += colours[colour] * cover;
      sums[4 * x + 1] += colours[colour + 1] * cover;
      sums[4 * x + 2] += colours[colour + 2] * cover;
      sums[4 * x + 3] += cover;
    }
  }
}

function setPixels(sums, bytes, at) {
  for (let x = 0; x < sums.length; x += 4) {
    const cover = sums[x + 3];
    if (cover <= 0) continue;
    bytes[at + x] = sums[x] / cover;
    bytes[at + x + 1] = sums[x + 1] / cover;
    bytes[at + x + 2] = sums[x + 2] / cover;
    bytes[at + x + 3] = 255 * Math.min(1, cover);
  }
}

// All dense rows in one picture, one pixel high each, which is then stretched.
function drawDense(context, rows, view) {
  const width = Math.max(1, Math.round(view.width * context.getTransform().a));
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = rows.length;
  const small = canvas.getContext('2d');
  const image = small.createImageData(width, rows.length);
  const colours = new Float32Array(3 * 256);
  for (const [letter, colour] of Object.entries(view.colours)) colours.set(rgb(colour), 3 * letter.charCodeAt(0));
  const sums = new Float32Array(4 * width);
  rows.forEach(([row, first], y) => {
    addPixels(row, view, first, width, colours, sums);
    setPixels(sums, image.data, 4 * width * y);
  });
  small.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  rows.forEach(([row], y) => context.drawImage(canvas, 0, y, width, 1, GUTTER, row.top, view.width, row.height));
}

export function drawRows(context, rows, view) {
  view.colours = actionColours();
  context.fillStyle = themeColour('track');
  for (const row of rows) context.fillRect(GUTTER, row.top, view.width, row.height);
  const dense = [];
  for (const row of rows) {
    const most = view.width / (hasLabels(row) ? DENSE_PIXELS : DENSE_PIXELS_UNLABELLED);
    const first = firstAfter(row, view.from);
    let last = first;
    while (last < row.starts.length && row.starts[last] < view.to && last - first <= most) ++last;
    if (last - first > most) dense.push([row, first]);
    else drawBoxes(context, row, view, first, last);
  }
  if (dense.length > 0) drawDense(context, dense, view);
}
