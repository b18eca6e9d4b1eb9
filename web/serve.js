// The live page of `serve`: a form, and the ranking of its plans, which fills
// while planners answer. A change starts a new search and stops the last.

import {ask, askLines} from './ask.js';
import {comparePanel} from './compare.js';
import {make} from './elements.js';
import {doable, panel} from './panel.js';
import {planPanels, sideBySide, subtitle} from './plans.js';
import {problemForm, problemOf} from './problem.js';

const TYPING_MS = 400;
const keyOf = (row) => `${row.planner}, ${row.method}`;

// A search, its last ranking and the reports of its plans.
class Search {
  constructor(wanted) {
    Object.assign(this, {wanted, ranking: null, chosen: null, shownKey: null, reports: new Map(), end: new AbortController()});
    this.state = {shown: 0, beside: null};
  }

  get rows() { return this.ranking.comparison.plans; }

  // Whichever row was chosen or put beside it is so after a new ranking too.
  take(ranking) {
    const beside = this.state.beside === null ? null : keyOf(this.rows[this.state.beside]);
    this.ranking = {...ranking, plans: [], reported: ranking.comparison.plans.map((row, i) => (row.refused ? -1 : i))};
    const at = (key) => this.rows.findIndex((row) => keyOf(row) === key);
    this.state.shown = this.chosen === null ? ranking.first : at(this.chosen);
    this.state.beside = beside === null ? null : at(beside);
  }

  async report(row) {
    const key = keyOf(this.rows[row]);
    if (!this.reports.has(key)) {
      const {plans} = await ask('report', {...this.wanted.problem, plan: this.ranking.files[row]}, this.end.signal);
      this.reports.set(key, plans[0]);
    }
    return this.reports.get(key);
  }
}

// The file itself, and the command that makes the same.
function planFile(search) {
  const row = search.state.shown;
  if (!search.ranking.files[row]) return [];
  const href = `data:application/json,${encodeURIComponent(`${JSON.stringify(search.ranking.files[row], null, 2)}\n`)}`;
  return [make('a', {class: 'button', id: 'save', download: 'plan.json', href}, 'Save plan.json'),
          make('code', {id: 'command'}, search.ranking.commands[row])];
}

// Elements above the plan; `plan` and `line` are filled with what is chosen.
export function planningView(serve, plan, line) {
  const form = problemForm(serve), status = make('span', {role: 'status', id: 'status'});
  const stop = make('button', {type: 'button', id: 'stop', hidden: true}, 'Stop');
  const table = make('div', {class: 'plan'}), file = make('div', {class: 'plan-file'});
  let search = null, timer = 0;
  const say = (text, isBusy) => {
    status.textContent = text;
    stop.hidden = !isBusy;
    document.documentElement.dataset.search = isBusy ? 'busy' : 'done';
  };

  const showPlan = async (mine) => {
    const {state} = mine, key = `${keyOf(mine.rows[state.shown])} ${state.beside === null ? '' : keyOf(mine.rows[state.beside])}`;
    file.replaceChildren(...planFile(mine));
    if (key === mine.shownKey || mine.rows[state.shown].refused) return;
    mine.shownKey = key;
    const rows = state.beside === null || state.beside === state.shown ? [state.shown] : [state.shown, state.beside];
    const told = rows.map((row) => mine.rows[row]);
    try {
      const reports = await Promise.all(rows.map((row) => mine.report(row)));
      if (search !== mine || mine.shownKey !== key) return;
      line.textContent = subtitle(reports[0].plan);
      plan.replaceChildren(...(rows.length > 1 ? [sideBySide(told, reports)] : []), ...planPanels(reports[0]));
      document.documentElement.dataset.shown = keyOf(told[0]);
    } catch (error) {
      if (search === mine && !mine.end.signal.aborted) say(error.message, false);
    }
  };
  const refresh = (mine) => {
    table.replaceChildren(comparePanel(mine.ranking, mine.state, () => {
      mine.chosen = keyOf(mine.rows[mine.state.shown]);
      showPlan(mine);
    }));
    showPlan(mine);
  };
  const start = async () => {
    if (!form.checkValidity()) return say('', false);
    const mine = search = new Search(problemOf(form));
    const {problem, planners, methods} = mine.wanted;
    say('Planning ...', true);
    try {
      await askLines('compare', {...problem, planners, methods}, mine.end.signal, (ranking) => {
        if (search !== mine) return;
        mine.take(ranking);
        say(`${ranking.answered} of ${ranking.asked} planners have answered`, true);
        refresh(mine);
      });
      if (search === mine) say(mine.ranking ? 'All planners have answered' : 'No planner has answered', false);
    } catch (error) {
      if (search === mine) say(mine.end.signal.aborted ? 'Stopped' : error.message, false);
    }
  };
  form.addEventListener('input', () => {
    clearTimeout(timer);
    if (search) search.end.abort();
    search = null;
    say('', true);
    timer = setTimeout(start, TYPING_MS);
  });
  stop.addEventListener('click', () => search && search.end.abort());
  timer = setTimeout(start);
  return [panel('problem', 'The problem', doable('a change plans anew'), form,
                make('div', {class: 'bar-row'}, make('div', {class: 'toolbar'}, status, stop), file)), table];
}
