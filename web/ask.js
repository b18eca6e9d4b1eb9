// Asks the server that the page came from.

const TOKEN = new URLSearchParams(location.search).get('token');

async function answered(path, body, signal) {
  const headers = {'Content-Type': 'application/json', ...(TOKEN ? {Authorization: `Bearer ${TOKEN}`} : {})};
  let response = null;
  try {
    response = await fetch(path, body ? {method: 'POST', headers, signal, body: JSON.stringify(body)} : {headers, signal});
  } catch (error) {
    if (signal && signal.aborted) throw error;
    throw new Error('the server does not answer: it has ended, or cannot be reached');
  }
  if (!response.ok) throw new Error((await response.json()).error);
  return response;
}

// The answer as an object. `body` is sent as JSON; without one the request is a GET.
export const ask = async (path, body, signal) => (await answered(path, body, signal)).json();

// Calls `each` with every line of the answer, as an object, when it comes.
export async function askLines(path, body, signal, each) {
  const reader = (await answered(path, body, signal)).body.getReader(), decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    text += decoder.decode(value, {stream: true});
    const lines = text.split('\n');
    text = lines.pop();
    lines.forEach((line) => each(JSON.parse(line)));
  }
}
