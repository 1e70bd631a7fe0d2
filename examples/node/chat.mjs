// Node: streams a chat, sets a deadline, cancels, decodes an error, calls a tool.
// Usage: node chat.mjs HOST:PORT PROTO_FOLDER
import { readdirSync } from "node:fs";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import protobuf from "protobufjs";

const [target, folder, google] = process.argv.slice(2);
const files = readdirSync(`${folder}/sluice/v1`).map((name) => `sluice/v1/${name}`);
const contract = loader.loadSync(files, { includeDirs: [folder], keepCase: true, enums: String, oneofs: true });
const { ChatService } = grpc.loadPackageDefinition(contract).sluice.v1;
const chat = new ChatService(target, grpc.credentials.createInsecure());

const user = (text, others) => ({ model: "sluice-demo", messages: [{ role: "ROLE_USER", content: [{ text }] }], ...others });

// Calls `read` with each piece of the answer, and resolves to the stream's status.
const stream = (request, options, read) =>
  new Promise((resolve) => {
    const call = chat.StreamChat(request, new grpc.Metadata(), options);
    call.on("data", (event) => event.content_delta && read(event.content_delta.text, call));
    call.on("error", () => {});
    call.on("status", (status) => resolve(grpc.status[status.code]));
  });

let answer = "";
await stream(user("What is the capital of France?", { sampling: { temperature: 0 } }), {}, (text) => (answer += text));
console.log("answer:", answer);

const stopping = { max_tokens: 1000, ignore_eos: true };
const long = user("Tell me of France.", { n: 32, sampling: { temperature: 2 }, stopping });
console.log("deadline:", await stream(long, { deadline: Date.now() + 300 }, () => {}));

let deltas = 0;
console.log("cancel:", await stream(long, {}, (_, call) => ++deltas === 3 && call.cancel()));

const ask = promisify(chat.Chat.bind(chat));
const rpc = await new protobuf.Root({ nested: {} }).load([`${google}/google/rpc/status.proto`, `${google}/google/rpc/error_details.proto`]);
try {
  await ask(user("Hello!", { sampling: { temperature: 3 } }));
} catch (error) {
  const [bytes] = error.metadata.get("grpc-status-details-bin");
  for (const { type_url, value } of rpc.lookupType("google.rpc.Status").decode(bytes).details) {
    const detail = rpc.lookupType(type_url.split("/").pop()).decode(value);
    if (detail.reason) console.log("error:", grpc.status[error.code], detail.reason);
    for (const { field, description } of detail.fieldViolations ?? []) console.log("field:", field, description);
  }
}

const parameters = { type: "object", properties: { city: { type: "string", maxLength: 30 } }, required: ["city"], additionalProperties: false };
const tools = [{ function: { name: "get_weather", parameters: JSON.stringify(parameters) } }];
const whole = await ask(user("What is the weather in Paris?", { tools, tool_choice: { mode: "TOOL_CHOICE_MODE_REQUIRED" } }));
const call = whole.choices[0].message.tool_calls[0].function;
console.log("tool:", call.name, call.arguments);
chat.close();
