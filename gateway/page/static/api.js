// Calls of the server that served this page.

/** An error with a sentence for the user. `status` is that of the server's answer; undefined if there was none. */
class CallError extends Error {
  constructor(text, status) {
    super(/[.!?]$/.test(text) ? text : `${text}.`);
    this.status = status;
  }

  /** True if the same request may succeed later. */
  get isPassing() {
    return [undefined, 401, 429, 502, 503, 504, 529].includes(this.status);
  }
}

/** The types of a stream's last event after which the rest of the answer may be received later. */
const PASSING_TYPES = ["server_error", "rate_limit_error", "requests", "tokens"];

const BEGINNINGS = {
  401: "This server needs a valid key",
  403: "The key does not permit this",
  429: "The server is busy",
  503: "The server is busy",
  529: "The server is busy",
};

async function throwError(answer) {
  let text = `${answer.status} ${answer.statusText}`;
  try {
    const { error } = await answer.json();
    text = error.param ? `${error.param}: ${error.message}` : error.message;
  } catch {
    // not JSON: only the status is known
  }
  const begin = BEGINNINGS[answer.status] ?? (answer.status < 500 ? "The server rejects the request" : "The server has failed");
  const wait = answer.headers.get("retry-after");
  throw new CallError(wait ? `${begin}: ${text}. Try again in ${wait} s` : `${begin}: ${text}`, answer.status);
}

/** The answer of a call whose status is a success. */
async function call(path, key, { headers, ...options } = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...headers, ...(key && { authorization: `Bearer ${key}` }) } });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new CallError("The server can't be reached. Check that it is running, and try again");
  }
  if (!answer.ok) await throwError(answer);
  return answer;
}

/** All models, {id, input_modalities, …}. */
export async function listModels(key) {
  return (await (await call("v1/models", key)).json()).data;
}

/** The names of models and endpoints that can chat; [] if the server does not list them. */
export async function listChats(key) {
  try {
    const { endpoints = [] } = await (await call("api/2.0/serving-endpoints", key)).json();
    return endpoints.filter((each) => each.task === "llm/v1/chat").map((each) => each.name);
  } catch (error) {
    if (error.status === undefined) throw error;
    return [];
  }
}

/**
 * The events of a streamed chat, each with its `event_id`, until it ends or `signal` aborts it. `after` is the id of the
 * last event that was received of the same request. Throws CallError.
 */
export async function* streamChat(body, key, signal, after) {
  const headers = { "content-type": "application/json", "x-sluice-event-ids": "true", ...(after && { "last-event-id": after }) };
  const answer = await call("v1/chat/completions", key, { method: "POST", headers, body: JSON.stringify(body), signal });
  for await (const { id, data } of events(answer.body, signal)) {
    if (data === "[DONE]") return;
    const event = JSON.parse(data);
    if (event.error) throw new CallError(`The answer has failed: ${event.error.message}`, PASSING_TYPES.includes(event.error.type) ? 503 : 400);
    yield { ...event, event_id: id };
  }
  throw new CallError("The connection ended before the answer was complete");
}

/** The complete server-sent events of a body. */
async function* events(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = {};
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      return;
    }
    if (piece.done) return;
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const colon = line.indexOf(": ");
      if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2);
      if (line) continue;
      if (event.data) yield event;
      event = {};
    }
  }
}
