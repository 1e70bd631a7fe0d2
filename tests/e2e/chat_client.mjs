// A gRPC caller in another language: streams one chat and prints the events' kinds and the text as one JSON line.
// Usage: node chat_client.mjs HOST:PORT PROTO_FOLDER VALIDATE_FOLDER NODE_MODULES
import { createRequire } from "node:module";

const [target, protos, validate, modules] = process.argv.slice(2);
const require = createRequire(modules + "/");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const definition = loader.loadSync("sluice/v1/chat.proto", { includeDirs: [protos, validate], oneofs: true, enums: String });
const { ChatService } = grpc.loadPackageDefinition(definition).sluice.v1;
const client = new ChatService(target, grpc.credentials.createInsecure());

const call = client.streamChat({
  model: "sluice-demo",
  messages: [{ role: "ROLE_USER", content: [{ text: "What is the capital of France?" }] }],
  sampling: { temperature: 0 },
});
const kinds = [];
let text = "";
call.on("data", (event) => {
  kinds.push(event.event);
  if (event.event === "contentDelta") text += event.contentDelta.text;
});
call.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
call.on("end", () => {
  console.log(JSON.stringify({ kinds, text }));
  client.close();
});
