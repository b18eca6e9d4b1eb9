// A panel of the page, the tooltip that all panels share, and canvases that are
// sharp on any screen.

import {make} from './elements.js';

// Of a hint: what one can do with the panel, which paper cannot.
export const doable = (text) => make('span', {class: 'doable'}, text);

export function panel(id, title, hint, ...children) {
  const heading = make('div', {class: 'heading'}, make('h2', {}, title),
                       hint ? make('span', {class: 'hint'}, hint) : null);
  return make('section', {class: 'panel', id, 'aria-label': title}, heading, children);
}

let tooltip = null;

// Lines of text beside the pointer; the first is a title.
export function showTooltip(event, lines) {
  if (tooltip === null) document.body.append(tooltip = make('div', {id: 'tooltip', role: 'status'}));
  tooltip.replaceChildren(...lines.map((line, i) => make('div', {class: i === 0 ? 'first' : null}, line)));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const below = event.clientY + 18 + box.height < innerHeight;
  tooltip.style.left = `${Math.max(8, x)}px`;
  tooltip.style.top = `${below ? event.clientY + 18 : Math.max(8, event.clientY - box.height - 12)}px`;
}

export function hideTooltip() {
  if (tooltip) tooltip.hidden = true;
}

// Sets the size of a canvas in CSS pixels and returns its context in them.
export function sizeCanvas(canvas, width, height) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  const wide = Math.max(1, Math.round(width * ratio)), high = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext('2d');
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Calls `draw(width)` now, when the element's width changes and when colours do.
export function redrawn(element, draw) {
  let width = 0;
  const again = () => {
    if (width > 0 && !element.isConnected) return document.removeEventListener('themechange', again);
    if (element.clientWidth > 0) draw(width = element.clientWidth);
  };
  new ResizeObserver(() => {
    if (element.clientWidth !== width) again();
  }).observe(element);
  document.addEventListener('themechange', again);
  return again;
}

export function legend(entries) {
  return make('div', {class: 'legend'}, entries.map(([text, colour, shape]) => make(
    'span', {}, make('i', {class: shape || null, style: `--colour: ${colour}`}), text)));
}
