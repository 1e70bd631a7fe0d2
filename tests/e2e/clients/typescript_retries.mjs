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
