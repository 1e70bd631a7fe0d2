// Browsers: streams a chat, sets a deadline, cancels, decodes an error, calls a tool, over gRPC-web.
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { BadRequestSchema, ErrorInfoSchema } from "./google/rpc/error_details_pb.js";
import { ChatRequestSchema, ChatService, type StreamChatResponse } from "./sluice/v1/chat_pb.js";
import { Role } from "./sluice/v1/content_pb.js";
import { ToolChoiceMode } from "./sluice/v1/tool_pb.js";

// A page of another origin requires that origin in the list that Envoy allows.
const chat = createClient(ChatService, createGrpcWebTransport({ baseUrl: location.origin }));
const out = document.querySelector("pre")!;
const show = (...words: unknown[]) => (out.textContent += words.join(" ") + "\n");

function user(text: string, others: MessageInitShape<typeof ChatRequestSchema> = {}) {
  const message = { role: Role.USER, content: [{ part: { case: "text" as const, value: text } }] };
  return create(ChatRequestSchema, { model: "sluice-demo", messages: [message], ...others });
}

/** Calls `read` with each piece of an answer, and returns the status with which the stream ends. */
async function end(events: AsyncIterable<StreamChatResponse>, read: (text: string) => void) {
  try {
    for await (const { event } of events) if (event.case === "contentDelta") read(event.value.text);
    return "OK";
  } catch (error) {
    return Code[ConnectError.from(error).code];
  }
}

let answer = "";
await end(chat.streamChat(user("What is the capital of France?", { sampling: { temperature: 0 } })), (text) => (answer += text));
show("answer:", answer);

const stopping = { maxTokens: 1000, ignoreEos: true };
const long = user("Tell me of France.", { n: 32, sampling: { temperature: 2 }, stopping });
show("deadline:", await end(chat.streamChat(long, { timeoutMs: 300 }), () => {}));

const leaving = new AbortController();
let deltas = 0;
show("cancel:", await end(chat.streamChat(long, { signal: leaving.signal }), () => ++deltas === 3 && leaving.abort()));

try {
  await chat.chat(user("Hello!", { sampling: { temperature: 3 } }));
} catch (error) {
  const failure = ConnectError.from(error);
  for (const info of failure.findDetails(ErrorInfoSchema)) show("error:", Code[failure.code], info.reason);
  for (const bad of failure.findDetails(BadRequestSchema))
    for (const { field, description } of bad.fieldViolations) show("field:", field, description);
}

const city = { type: "string", maxLength: 30 };
const parameters = JSON.stringify({ type: "object", properties: { city }, required: ["city"], additionalProperties: false });
const whole = await chat.chat(
  user("What is the weather in Paris?", {
    tools: [{ tool: { case: "function", value: { name: "get_weather", parameters } } }],
    toolChoice: { choice: { case: "mode", value: ToolChoiceMode.REQUIRED } },
  }),
);
const call = whole.choices[0].message!.toolCalls[0].call.value!;
show("tool:", call.name, call.arguments);
