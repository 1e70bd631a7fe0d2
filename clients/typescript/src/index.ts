// The client over gRPC-web, for browsers and other runtimes with fetch.
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { type Options, over, type Sluice, transportOptions } from "./sluice.js";

export { type Refusal, refusalOf, type Violation } from "./refusal.js";
export { type Options, over, type Sluice } from "./sluice.js";
export { message, texts } from "./texts.js";
export { type Conversation, type RunnableTool, runTools, tool, toolResult } from "./tools.js";

/** Returns the services of a server behind a proxy, such as `https://llm.example.com`, over gRPC-web. */
export function connect(baseUrl: string, options: Options = {}): Sluice {
  return over(createGrpcWebTransport(transportOptions(baseUrl, options)));
}
