// What a failed call says: its code, and what the server packs beside it.
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

/** A field that is to blame. */
export interface Violation {
  /** Its path by proto names, such as `messages[0].content[1].image_url`. */
  field: string;
  description: string;
}

/** Why a call failed. */
export interface Refusal {
  code: Code;
  /** For people; may change. */
  message: string;
  /** What went wrong, a word of the server's table of errors; empty where the failure is not the server's own. */
  reason: string;
  /** The values that the message has. */
  values: Record<string, string>;
  violations: Violation[];
  /** When to try again; undefined where that is of no use. */
  retryDelayMs: number | undefined;
  /** What the server's operator finds the call by. */
  requestId: string | undefined;
}

/** Reads an error of a call. Whatever is thrown has an answer; what is no failure of a call has `Code.Unknown`. */
export function refusalOf(error: unknown): Refusal {
  const failure = ConnectError.from(error);
  const [info] = failure.findDetails(ErrorInfoSchema);
  const [retry] = failure.findDetails(RetryInfoSchema);
  const delay = retry?.retryDelay;
  return {
    code: failure.code,
    message: failure.rawMessage,
    reason: info?.reason ?? "",
    values: info?.metadata ?? {},
    violations: failure.findDetails(BadRequestSchema).flatMap(({ fieldViolations }) =>
      fieldViolations.map(({ field, description }) => ({ field, description })),
    ),
    retryDelayMs: delay && Number(delay.seconds) * 1000 + delay.nanos / 1e6,
    requestId: failure.metadata.get("x-request-id") ?? undefined,
  };
}
