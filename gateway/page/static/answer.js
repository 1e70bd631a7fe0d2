// An answer that is being streamed into a message, which can be continued after a reload of the page.

import { streamChat } from "./api.js";

const SAVE_MS = 2000;
const LONG_MS = 1000; // a prompt that takes less has no bar

/**
 * Stream the answer to `body` into the message `node`, after the part that it has. `changed` is called after each event,
 * `save` sometimes, while `node.event_id` belongs to the part that it has.
 */
export async function write(node, body, key, signal, { changed, save }) {
  const begun = performance.now() - (node.took_ms ?? 0);
  let saved = performance.now();
  node.progress = undefined;
  for await (const event of streamChat(body, key, signal, node.event_id)) {
    for (const { delta = {}, logprobs, finish_reason: reason } of event.choices ?? []) {
      if (delta.reasoning_content || delta.content) node.first_ms ??= performance.now() - begun;
      node.reasoning = (node.reasoning ?? "") + (delta.reasoning_content ?? "");
      node.content += delta.content ?? "";
      if (logprobs?.content) (node.logprobs ??= []).push(...logprobs.content);
      for (const call of delta.tool_calls ?? []) addCall(node, call);
      if (reason) node.finish_reason = reason;
    }
    if (event.prompt_progress) node.progress = shownProgress(event.prompt_progress);
    if (event.usage) node.num_tokens = event.usage.completion_tokens;
    node.took_ms = performance.now() - begun;
    node.event_id = event.event_id ?? node.event_id;
    changed();
    if (performance.now() - saved > SAVE_MS) {
      save();
      saved = performance.now();
    }
  }
}

/** The progress of a prompt that is expected to take longer than a second, until it is complete. */
function shownProgress(progress) {
  const { total, cache, processed, time_ms: took } = progress;
  return processed < total && took * (total - cache) > LONG_MS * (processed - cache) ? progress : undefined;
}

function addCall(node, { index, id, function: piece }) {
  const call = ((node.tool_calls ??= [])[index] ??= { id, type: "function", function: { name: "", arguments: "" } });
  call.function.name += piece?.name ?? "";
  call.function.arguments += piece?.arguments ?? "";
}
