// Colours. Those of actions and stages are from the palette of Okabe and Ito
// (2008), which people with any kind of colour blindness can tell apart; letters
// and labels say the same once more.

const LIGHT = {
  F: '#3d8fc9', B: '#e69f00', I: '#d9793f', W: '#f0d648', R: '#cc79a7', S: '#4d4d4d', '+': '#8a8f98',
  A: '#7fb5da', G: '#f0c878', K: '#b79bd0', V: '#5fb89a',
};
const DARK = {
  F: '#4f9fd8', B: '#dd9a12', I: '#cf6f38', W: '#d8c23f', R: '#c978a5', S: '#c9ccd2', '+': '#878d97',
  A: '#3f6f91', G: '#8f7136', K: '#7a649a', V: '#3a7f69',
};
const STAGES = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8f8a2e', '#7a6bb5'];

export const ACTIONS = {
  F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient', R: 'recompute', S: 'step',
  '+': 'several actions',
};
export const MESSAGES = {A: 'activation', G: 'gradient', K: 'kept values', V: 'weights'};
export const MEMORY = [
  ['weights', 'weights', '#0072b2'], ['versions', 'further versions', '#56b4e9'],
  ['gradients', 'gradients', '#009e73'], ['optimizer', 'optimizer state', '#8f8a2e'],
  ['other', 'other', '#8a8f98'], ['kept', 'kept for backward', '#e69f00'], ['buffers', 'buffers', '#cc79a7'],
];

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === 'dark';
  return matchMedia('(prefers-color-scheme: dark)').matches && !matchMedia('print').matches;
}

// By the letter of an action or message. Asks the browser: once per drawing.
export const actionColours = () => (isDark() ? DARK : LIGHT);
export const stageColour = (stage) => (stage < 0 ? '#8a8f98' : STAGES[stage % STAGES.length]);
// A variable of page.css.
export const themeColour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export function rgb(colour) {
  const hex = colour.slice(1);
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// Black or white, whichever is easier to read on the colour.
export function inkOn(colour) {
  const [r, g, b] = rgb(colour);
  return 0.299 * r + 0.587 * g + 0.114 * b > 150 ? '#1a1c20' : '#ffffff';
}
