// Makes elements of the page. Text of the data, such as a layer's name, is
// other people's: it only ever becomes a text node, never markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined) element.append(child);
  return element;
}

export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A table with right-aligned numbers. A column is {title, text(row), value(row),
// left}; rows can be sorted by a click on a title where it has a value.
export function tableOf(columns, rows, options = {}) {
  const body = make('tbody');
  let sorted = null;
  const show = () => {
    const order = sorted === null ? rows : [...rows].sort(byColumn(columns[sorted.column], sorted.down));
    body.replaceChildren(...order.map((row) => tableRow(columns, row, options)));
  };
  const titles = columns.map((column, index) => {
    const title = column.value ? make('button', {type: 'button', class: 'sort'}, column.title) : column.title;
    const cell = make('th', {class: column.left ? 'left' : null, scope: 'col'}, title);
    if (column.value) title.addEventListener('click', () => {
      sorted = {column: index, down: sorted && sorted.column === index ? !sorted.down : false};
      cell.parentNode.querySelectorAll('th').forEach((other) => other.removeAttribute('aria-sort'));
      cell.setAttribute('aria-sort', sorted.down ? 'descending' : 'ascending');
      show();
    });
    return cell;
  });
  show();
  return make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, make('tr', {}, titles)), body));
}

function byColumn(column, down) {
  return (a, b) => {
    const x = column.value(a), y = column.value(b);
    const order = typeof x === 'string' ? x.localeCompare(y) : x - y;
    return down ? -order : order;
  };
}

function tableRow(columns, row, options) {
  const cells = columns.map((column) => make('td', {class: column.left ? 'left' : null}, column.text(row)));
  const line = make('tr', options.attributes ? options.attributes(row) : {}, cells);
  if (options.onrow) {
    line.addEventListener('click', () => options.onrow(row));
    line.addEventListener('keydown', (event) => {
      if (event.target !== line || (event.key !== 'Enter' && event.key !== ' ')) return;
      event.preventDefault();
      options.onrow(row);
    });
  }
  return line;
}
