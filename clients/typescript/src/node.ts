// For Node: gRPC over HTTP/2, by @connectrpc/connect-node.
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Options, over, type Sluice, transportOptions } from "./sluice.js";

export { type Refusal, refusalOf, type Violation } from "./refusal.js";
export { type Options, over, type Sluice } from "./sluice.js";
export { message, texts } from "./texts.js";

/** The services of a server, or of a front door, over gRPC; connections are pinged as the server likes it. */
export function connect(baseUrl: string, options: Options = {}): Sluice {
  const pings = { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 };
  return over(createGrpcTransport({ ...transportOptions(baseUrl, options), ...pings }));
}
