// Call a server that rejects calls, with the TypeScript client over gRPC, and print the outcomes and the numbers of
// attempts as JSON. Usage: node typescript_retries.mjs PACKAGE_FOLDER
import { once } from "node:events";
import http2 from "node:http2";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const own = (path) => import(pathToFileURL(`${folder}/dist/${path}`));
const lookup = createRequire(`${folder}/package.json`);
const installed = (name) => import(pathToFileURL(lookup.resolve(name)));
const { connect, refusalOf } = await own("node.js");
const { ChatService } = await own("gen/sluice/v1/chat_pb.js");
const { BatchService } = await own("gen/sluice/v1/batch_pb.js");
const { ConversationService } = await own("gen/sluice/v1/conversation_pb.js");
const { FileService } = await own("gen/sluice/v1/file_pb.js");
const { CreateResponseRequestSchema, ResponseService } = await own("gen/sluice/v1/response_pb.js");
const { create } = await installed("@bufbuild/protobuf");
const { ModelService } = await own("gen/sluice/v1/model_pb.js");
const { RetryInfoSchema } = await own("gen/error_details_pb.js");
const { Code, ConnectError } = await installed("@connectrpc/connect");
const { connectNodeAdapter } = await installed("@connectrpc/connect-node");

let attempts = 0;
let rejections = 0;
let delay = { seconds: 0n, nanos: 1_000_000 };
function reject(code = Code.Unavailable) {
  attempts++;
  if (attempts > rejections) return;
  const value = { retryDelay: delay };
  throw new ConnectError("rejected", code, undefined, [{ desc: RetryInfoSchema, value }]);
}
function routes(router) {
  router.service(ChatService, {
    chat: ({ model }) => (reject(model === "busy" ? Code.ResourceExhausted : model === "broken" ? Code.Internal : Code.Unavailable), { id: "whole" }),
    async *streamChat({ model }) {
      if (model === "begun") {
        attempts++;
        yield { event: { case: "contentDelta", value: { text: "a" } } };
        throw new ConnectError("broken", Code.Unavailable);
      }
      reject();
      for (const text of ["a", "b"]) yield { event: { case: "contentDelta", value: { text } } };
    },
  });
  router.service(ModelService, { loadModel: () => (reject(), {}) });
  router.service(ConversationService, { createConversation: () => (reject(), {}), addConversationItems: () => (reject(), {}) });
  router.service(FileService, { uploadFile: () => (reject(), {}) });
  router.service(BatchService, { createBatch: () => (reject(), {}) });
  router.service(ResponseService, {
    createResponse: (request) => (record(request), reject(), {}),
    async *streamResponse(request) {
      record(request);
      reject();
      yield {};
    },
  });
}
const ids = [];
function record({ serving, responseId }) {
  ids.push([serving?.requestId ?? "", responseId]);
}

const sessions = new Set();
const server = http2.createServer(connectNodeAdapter({ routes })).listen(0, "127.0.0.1");
server.on("session", (session) => sessions.add(session));
await once(server, "listening");
const url = `http://127.0.0.1:${server.address().port}`;
const sluice = connect(url);
const outcomes = {};
async function outcome(name, rejected, call) {
  attempts = 0;
  rejections = rejected;
  const result = await call().catch((error) => Code[refusalOf(error).code]);
  outcomes[name] = [result, attempts];
}
async function streamed(request, texts = []) {
  for await (const { event } of sluice.chat.streamChat(request)) texts.push(event.value.text);
  return texts.join("");
}
const whole = (client, model = "", options = {}) => async () => (await client.chat.chat({ model }, options)).id;

await outcome("unary", 2, whole(sluice));
await outcome("exhausted", 1, whole(sluice, "busy"));
await outcome("too often", 4, whole(sluice));
await outcome("other error", 1, whole(sluice, "broken"));
await outcome("without retries", 1, whole(connect(url, { maxRetries: 0 })));
await outcome("stream", 2, () => streamed({}));
await outcome("begun stream", 0, () => streamed({ model: "begun" }));
await outcome("change", 1, async () => (await sluice.models.loadModel({})).$typeName);
async function* one(message) {
  yield message;
}
await outcome("creations", 1, async () => (await sluice.conversations.createConversation({})).$typeName);
await outcome("additions", 1, async () => (await sluice.conversations.addConversationItems({})).$typeName);
await outcome("uploads", 1, async () => (await sluice.files.uploadFile(one({}))).$typeName);
await outcome("batches", 1, async () => (await sluice.batches.createBatch(one({}))).$typeName);

/** For a call and a stream with the same message: which id it has, whether all attempts have it, and their number. */
async function repeated(fields) {
  const message = create(CreateResponseRequestSchema, fields);
  const kinds = [];
  for (const call of [() => sluice.responses.createResponse(message), () => begin(sluice.responses.streamResponse(message))]) {
    attempts = 0;
    rejections = 1;
    ids.length = 0;
    await call();
    const [[requestId, responseId], again] = ids;
    kinds.push([requestId ? "request" : responseId ? "response" : "none", String([requestId, responseId]) === String(again), ids.length]);
  }
  return [kinds, message.responseId || message.serving?.requestId || "unchanged"];
}
async function begin(events) {
  for await (const _ of events);
}
outcomes.stored = await repeated({ store: true });
outcomes.conversation = await repeated({ conversation: "c" });
outcomes.background = await repeated({ store: true, background: true });
outcomes.named = await repeated({ store: true, responseId: "0".repeat(32) });
outcomes["without effect"] = await repeated({});
delay = { seconds: 3_600n, nanos: 0 };
// A deadline that has passed before the call reached the server proves nothing.
for (let timeoutMs = 200; outcomes.deadline?.[1] !== 1; timeoutMs *= 2) await outcome("deadline", 1, whole(sluice, "", { timeoutMs }));
const controller = new AbortController();
const waiting = outcome("aborted", 1, whole(sluice, "", { signal: controller.signal }));
while (attempts === 0) await new Promise((resolve) => setTimeout(resolve, 5));
controller.abort();
await waiting;
console.log(JSON.stringify(outcomes));
for (const session of sessions) session.destroy();
server.close();
process.exit(0);
