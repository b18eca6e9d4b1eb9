// The form of `serve`: a planning problem, with the planners and methods to ask.

import {make} from './elements.js';

const CLUSTER = /^(\d+)x([A-Za-z][\w-]*)(?:@([^@/]+(?:\/s)?))?$/;

function field(name, text, control, hint) {
  control.name = name;
  return make('label', {title: hint}, make('span', {}, text), control);
}

const suggestions = (id, values) => make('datalist', {id}, values.map((value) => make('option', {value})));

function choices(legend, name, values, isChosen) {
  const boxes = values.map(({name: value, summary}) => make('label', {class: 'check', title: summary || null},
    make('input', {type: 'checkbox', name, value, checked: isChosen(value)}), value));
  return make('fieldset', {}, make('legend', {}, legend), boxes);
}

// Devices, kind and link are parts of the cluster's text where it has one group
// of devices; a change of either side changes the other.
function joinCluster(form) {
  const {devices, kind, link, cluster} = form.elements;
  const parts = [devices, kind, link];
  const split = () => {
    const found = cluster.value.trim().match(CLUSTER);
    parts.forEach((part, i) => { part.value = found ? found[i + 1] || '' : ''; });
  };
  parts.forEach((part) => part.addEventListener('input', () => {
    if (devices.value && kind.value) cluster.value = `${devices.value}x${kind.value}${link.value ? `@${link.value}` : ''}`;
  }));
  cluster.addEventListener('input', split);
  split();
}

export function problemForm(serve) {
  const form = make(
    'form', {class: 'problem', autocomplete: 'off'}, suggestions('models', serve.models), suggestions('kinds', serve.kinds),
    suggestions('links', ['1GB/s', '100Gb/s', ...serve.links]), suggestions('clusters', serve.clusters),
    make('div', {class: 'fields'},
      field('model', 'Model', make('input', {value: 'vgg16', list: 'models', required: true, maxlength: 300}),
            'a model of the zoo with settings, such as gpt:layers=12'),
      field('devices', 'Devices', make('input', {type: 'number', min: 1, max: 1024})),
      field('kind', 'Kind', make('input', {list: 'kinds', maxlength: 40})),
      field('link', 'Link', make('input', {list: 'links', maxlength: 60}), 'bandwidth such as 1GB/s, or a name'),
      field('cluster', 'Cluster', make('input', {value: '4xV100@1GB/s', list: 'clusters', required: true, maxlength: 300}),
            'all of it as text; several hosts: 2x4xV100@nvlink/10GbE'),
      field('minibatch', 'Minibatch', make('input', {type: 'number', value: 64, min: 1, max: 1048576, required: true}),
            'samples per optimizer step'),
      field('microbatches', 'Microbatches', make('input', {placeholder: 'any', pattern: ' *[0-9]+( *, *[0-9]+)* *', maxlength: 60}),
            'sizes to try, in samples: 4,8'),
      field('memory', 'Memory', make('input', {placeholder: 'of the device', maxlength: 20}), 'a limit per device, such as 8GB')),
    choices('Planners', 'planners', serve.planners, () => true),
    choices('Methods', 'methods', serve.methods.map((name) => ({name})), (name) => name === 'sync'));
  joinCluster(form);
  form.addEventListener('submit', (event) => event.preventDefault());
  return form;
}

// What the server is asked: the problem, and the search on it.
export function problemOf(form) {
  const value = (name) => form.elements[name].value.trim();
  const chosen = (name) => [...form.querySelectorAll(`[name=${name}]:checked`)].map((box) => box.value);
  const microbatches = value('microbatches') ? value('microbatches').split(',').map(Number) : [];
  return {
    problem: {model: value('model'), cluster: value('cluster'), minibatch: Number(value('minibatch')), microbatches,
              memory: value('memory')},
    planners: chosen('planners'), methods: chosen('methods')};
}
