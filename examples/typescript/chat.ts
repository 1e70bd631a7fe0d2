// TypeScript: streams a chat, sets a deadline, cancels, decodes an error, calls a tool.
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { BadRequestSchema, ErrorInfoSchema } from "./google/rpc/error_details_pb.js";
import { ChatRequestSchema, ChatService, type StreamChatResponse } from "./sluice/v1/chat_pb.js";
import { Role } from "./sluice/v1/content_pb.js";
import { ToolChoiceMode } from "./sluice/v1/tool_pb.js";

const chat = createClient(ChatService, createGrpcTransport({ baseUrl: `http://${process.argv[2]}` }));

function user(text: string, others: MessageInitShape<typeof ChatRequestSchema> = {}) {
  const message = { role: Role.USER, content: [{ part: { case: "text" as const, value: text } }] };
  return create(ChatRequestSchema, { model: "sluice-demo", messages: [message], ...others });
}

async function* texts(events: AsyncIterable<StreamChatResponse>) {
  for await (const { event } of events) if (event.case === "contentDelta") yield event.value.text;
}

/** Reads an answer to its end and returns the status. */
async function end(events: AsyncIterable<StreamChatResponse>, read: () => void = () => {}) {
  try {
    for await (const _ of texts(events)) read();
    return "OK";
  } catch (error) {
    return Code[ConnectError.from(error).code];
  }
}

let answer = "";
const question = user("What is the capital of France?", { sampling: { temperature: 0 } });
for await (const text of texts(chat.streamChat(question))) answer += text;
console.log("answer:", answer);

const stopping = { maxTokens: 1000, ignoreEos: true };
const long = user("Tell me of France.", { n: 32, sampling: { temperature: 2 }, stopping });
console.log("deadline:", await end(chat.streamChat(long, { timeoutMs: 300 })));

const leaving = new AbortController();
let deltas = 0;
console.log("cancel:", await end(chat.streamChat(long, { signal: leaving.signal }), () => ++deltas === 3 && leaving.abort()));

try {
  await chat.chat(user("Hello!", { sampling: { temperature: 3 } }));
} catch (error) {
  const failure = ConnectError.from(error);
  for (const info of failure.findDetails(ErrorInfoSchema)) console.log("error:", Code[failure.code], info.reason);
  for (const bad of failure.findDetails(BadRequestSchema))
    for (const { field, description } of bad.fieldViolations) console.log("field:", field, description);
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
console.log("tool:", call.name, call.arguments);
