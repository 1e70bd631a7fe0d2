// The client over gRPC (HTTP/2), for Node, with @connectrpc/connect-node.
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Options, over, type Sluice, transportOptions } from "./sluice.js";

export { type Refusal, refusalOf, type Violation } from "./refusal.js";
export { type Options, over, type Sluice } from "./sluice.js";
export { message, texts } from "./texts.js";
export { type Conversation, type RunnableTool, runTools, tool, toolResult } from "./tools.js";

/** Returns the services of a server or a proxy over gRPC. Connections are pinged as often as the server allows. */
export function connect(baseUrl: string, options: Options = {}): Sluice {
  const pings = { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 };
  return over(createGrpcTransport({ ...transportOptions(baseUrl, options), ...pings }));
}
