// Which calls may be repeated, and the ids by which the server recognizes a request that is sent again.
import { clone, create, type DescMethod, getOption, isMessage } from "@bufbuild/protobuf";
import { BatchService } from "./gen/sluice/v1/batch_pb.js";
import { ConversationService } from "./gen/sluice/v1/conversation_pb.js";
import { FileService } from "./gen/sluice/v1/file_pb.js";
import { CreateResponseRequestSchema } from "./gen/sluice/v1/response_pb.js";
import { policy, RpcKind } from "./gen/sluice/v1/rpc_pb.js";
import { ServingOptionsSchema } from "./gen/sluice/v1/serving_pb.js";

/** The methods that create or add something again if they are repeated. */
const ONCE: DescMethod[] = [
  ConversationService.method.createConversation,
  ConversationService.method.addConversationItems,
  FileService.method.uploadFile,
  BatchService.method.createBatch,
];

/** Returns whether a call of the method may be repeated without knowledge of its outcome. */
export function isRepeatable(method: DescMethod): boolean {
  return getOption(method, policy).kind !== RpcKind.CHANGE && !ONCE.includes(method);
}

/**
 * Returns a request with one effect, however often it is sent: one for a response that is stored, added to a conversation
 * or created in the background gets an id, in a copy, unless it has one. Others are returned as they are.
 */
export function withId<T extends object>(message: T): T {
  if (!isMessage(message, CreateResponseRequestSchema)) return message;
  const hasEffect = message.background || message.store || message.conversation;
  if (!hasEffect || message.serving?.requestId || message.responseId || message.resume) return message;
  const found = clone(CreateResponseRequestSchema, message);
  const id = randomId();
  if (found.background) (found.serving ??= create(ServingOptionsSchema)).requestId = id;
  else found.responseId = id;
  return found as T;
}

/** Returns 32 hexadecimal digits. `crypto.randomUUID` is not available on pages without TLS. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
