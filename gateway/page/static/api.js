// Calls of the server that served this page.

async function throwError(answer) {
  let text = `${answer.status} ${answer.statusText}`;
  try {
    const { error } = await answer.json();
    text = error.param ? `${error.param}: ${error.message}` : error.message;
  } catch {
    // not JSON: only the status is known
  }
  throw new Error(answer.status === 401 ? `${text}; give a key in the settings` : text);
}

function headers(key) {
  return key ? { authorization: `Bearer ${key}` } : {};
}

/** All models, {id, input_modalities, …}. */
export async function listModels(key) {
  const answer = await fetch("v1/models", { headers: headers(key) });
  if (!answer.ok) await throwError(answer);
  return (await answer.json()).data;
}

/** The names of models and endpoints that can chat; [] if the server does not list them. */
export async function listChats(key) {
  const answer = await fetch("api/2.0/serving-endpoints", { headers: headers(key) });
  if (!answer.ok) return [];
  const { endpoints = [] } = await answer.json();
  return endpoints.filter((each) => each.task === "llm/v1/chat").map((each) => each.name);
}

/** The events of a streamed chat, until it ends or `signal` aborts it. Throws Error with the text of the error. */
export async function* streamChat(body, key, signal) {
  const answer = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers(key) },
    body: JSON.stringify(body),
    signal,
  });
  if (!answer.ok) await throwError(answer);
  let rest = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      yield event;
    }
  }
}
