// Conversions between texts and the contract's messages and events.
import { create } from "@bufbuild/protobuf";
import type { StreamChatResponse } from "./gen/sluice/v1/chat_pb.js";
import { type Message, MessageSchema, Role } from "./gen/sluice/v1/content_pb.js";

const ROLES = { system: Role.SYSTEM, user: Role.USER, assistant: Role.ASSISTANT };

/** Returns one turn of a conversation. */
export function message(role: keyof typeof ROLES, text: string): Message {
  return create(MessageSchema, { role: ROLES[role], content: [{ part: { case: "text", value: text } }] });
}

/** Yields the pieces of one choice's text as they arrive. Leaving the loop cancels the call. */
export async function* texts(stream: AsyncIterable<StreamChatResponse>, choice = 0): AsyncGenerator<string> {
  for await (const { event } of stream) {
    if (event.case === "contentDelta" && event.value.choiceIndex === choice) yield event.value.text;
  }
}
