// A gRPC client in another language. Make the calls read from standard input, one JSON object
// {service, method, request} per line, and print one JSON line {messages, code, details} per call.
// Usage: node rpc_client.mjs HOST:PORT PROTO_FOLDER VALIDATE_FOLDER NODE_MODULES
import { createRequire } from "node:module";
import { readdirSync, readFileSync } from "node:fs";

const [target, protos, validate, modules] = process.argv.slice(2);
const require = createRequire(modules + "/");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const files = readdirSync(`${protos}/sluice/v1`).map((name) => `sluice/v1/${name}`);
const options = { includeDirs: [protos, validate], keepCase: true, oneofs: true, enums: String, longs: Number };
const definition = loader.loadSync(files, options);
const services = grpc.loadPackageDefinition(definition).sluice.v1;

const makeCall = ({ service, method, request }) =>
  new Promise((resolve) => {
    const client = new services[service](target, grpc.credentials.createInsecure());
    const end = (messages, status) => {
      client.close();
      resolve({ messages, code: grpc.status[status.code], details: status.details });
    };
    if (client[method].responseStream) {
      const messages = [];
      const call = client[method](request);
      call.on("data", (message) => messages.push(message));
      call.on("error", () => {});
      call.on("status", (status) => end(messages, status));
    } else {
      client[method](request, (error, message) => end(error ? [] : [message], error ?? { code: grpc.status.OK }));
    }
  });

for (const line of readFileSync(0, "utf8").trim().split("\n")) console.log(JSON.stringify(await makeCall(JSON.parse(line))));
