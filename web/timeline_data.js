// The rows of a timeline as typed arrays, and what lies where in them. Draws
// nothing.

const integers = (list) => Int32Array.from(list);
// The letters of a row as numbers, which are faster to compare.
const codes = (letters) => Uint8Array.from(letters, (letter) => letter.charCodeAt(0));

function workerRow(data) {
  return {
    type: 'worker', worker: data.worker, kinds: data.kinds, codes: codes(data.kinds), stages: integers(data.stages),
    keys: integers(data.microbatches), starts: integers(data.starts), ends: integers(data.ends),
    reductions: {starts: data.reductions.starts, ends: data.reductions.ends},
  };
}

function linkRow(data) {
  return {
    type: 'link', from: data.from, to: data.to, kinds: data.kinds, keys: integers(data.keys),
    codes: codes(data.kinds), starts: integers(data.starts), ends: integers(data.ends), bytes: data.bytes,
    sentBy: integers(data.sent_by), readBy: integers(data.read_by),
  };
}

// Rows from top to bottom: each worker, below it the links that it sends on.
export function timelineRows(timeline, withLinks) {
  const rows = [];
  for (const worker of timeline.workers) {
    rows.push(workerRow(worker));
    if (withLinks)
      for (const link of timeline.links) if (link.from === worker.worker) rows.push(linkRow(link));
  }
  return rows;
}

// The first span that ends after `time`.
export function firstAfter(row, time) {
  let low = 0, high = row.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.ends[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The span at a time, or one that starts within `slack` of it; -1 if none.
export function spanAt(row, time, slack) {
  const at = firstAfter(row, time - slack);
  return at < row.starts.length && row.starts[at] <= time + slack ? at : -1;
}

export const messageBytes = (row, i) => row.bytes[row.bytes.length === 1 ? 0 : i];

// What the same worker did before with the same microbatch of the same stage,
// and which a span needs; -1 if none.
export function sameBefore(row, span) {
  if ('FS+'.includes(row.kinds[span])) return -1;
  for (let i = span - 1; i >= 0; --i)
    if (row.keys[i] === row.keys[span] && row.stages[i] === row.stages[span] && row.kinds[i] !== 'S') return i;
  return -1;
}

// Messages that a worker's span reads and sends, as {link, index}.
export function messagesOf(timeline, worker, span) {
  const found = {read: [], sent: []};
  for (const link of timeline.links) {
    if (link.to === worker)
      link.read_by.forEach((reader, index) => reader === span && found.read.push({link, index}));
    if (link.from === worker)
      link.sent_by.forEach((sender, index) => sender === span && found.sent.push({link, index}));
  }
  return found;
}
