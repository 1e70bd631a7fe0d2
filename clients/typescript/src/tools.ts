// Tools: functions that the model may call, and conversations in which it does.
import { clone, create, type MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions, Client } from "@connectrpc/connect";
import { ChatRequestSchema, type ChatResponse, type ChatService } from "./gen/sluice/v1/chat_pb.js";
import { type Message, MessageSchema, Role } from "./gen/sluice/v1/content_pb.js";
import { type Tool, type ToolCall, ToolSchema } from "./gen/sluice/v1/tool_pb.js";

/** Returns a function that the model may call; `parameters` is a JSON Schema of type object. */
export function tool(name: string, description = "", parameters?: object): Tool {
  const text = parameters === undefined ? "" : JSON.stringify(parameters);
  return create(ToolSchema, { tool: { case: "function", value: { name, description, parameters: text } } });
}

/** Returns the message with a tool call's result, to be sent after the assistant's message that has the call. */
export function toolResult(call: ToolCall, text: string): Message {
  return create(MessageSchema, { role: Role.TOOL, toolCallId: call.id, content: [{ part: { case: "text", value: text } }] });
}

/** A tool of `runTools`: what the model sees of it, and the function that computes its result from the arguments. */
export interface RunnableTool {
  tool: Tool;
  // biome-ignore lint/suspicious/noExplicitAny: the tool's schema describes the arguments
  run: (args: any) => unknown;
}

/** A conversation that has ended with an answer. */
export interface Conversation {
  /** All messages: those of the request, the model's calls, their results, and the answer. */
  messages: Message[];
  /** The last response. */
  response: ChatResponse;
  /** The answer's text. */
  text: string;
}

/**
 * Chats until the model answers without calling a tool, at most `maxRounds` times (default 8), and runs the tools that
 * it calls. A result that is not a string is sent as JSON; an error that a tool throws is sent to the model as text.
 * If the last round ends with calls too, they are not run. The request's `toolChoice` holds for the first round only.
 */
export async function runTools(
  chat: Client<typeof ChatService>,
  request: MessageInitShape<typeof ChatRequestSchema>,
  tools: RunnableTool[],
  { maxRounds = 8, ...options }: CallOptions & { maxRounds?: number } = {},
): Promise<Conversation> {
  const byName = new Map(tools.map((each) => [each.tool.tool.case === "function" ? each.tool.tool.value.name : "", each]));
  const next = clone(ChatRequestSchema, create(ChatRequestSchema, request));
  next.tools = tools.map((each) => each.tool);
  const { messages } = next;
  for (let round = 1; ; round++) {
    const response = await chat.chat(next, options);
    delete next.toolChoice;
    const turn = response.choices[0]?.message;
    if (turn === undefined) throw new Error("the response has no choice");
    messages.push(turn);
    if (turn.toolCalls.length === 0 || round >= maxRounds) {
      const text = turn.content.map(({ part }) => (part.case === "text" ? part.value : "")).join("");
      return { messages, response, text };
    }
    messages.push(...(await Promise.all(turn.toolCalls.map(async (call) => toolResult(call, await resultOf(call, byName))))));
  }
}

async function resultOf({ call }: ToolCall, byName: Map<string, RunnableTool>): Promise<string> {
  if (call.case !== "function") return "error: this kind of call is unknown";
  const { name, arguments: text } = call.value;
  try {
    const known = byName.get(name);
    if (known === undefined) throw new Error(`there is no function ${name}`);
    const result = await known.run(JSON.parse(text || "{}"));
    return typeof result === "string" ? result : (JSON.stringify(result) ?? "");
  } catch (error) {
    return `error: ${error instanceof Error ? error.message : String(error)}`;
  }
}
