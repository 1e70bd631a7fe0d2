// Failed calls: the code and the decoded error details.
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/error_details_pb.js";

/** An invalid field. */
export interface Violation {
  /** The path in proto names, such as `messages[0].content[1].image_url`. */
  field: string;
  description: string;
}

/** The decoded error of a failed call. */
export interface Refusal {
  code: Code;
  /** A text for people, which may change. */
  message: string;
  /** The error's name in the contract, such as `MODEL_NOT_FOUND`; empty if the error is not from the server. */
  reason: string;
  /** The values that the message contains, by name. */
  values: Record<string, string>;
  violations: Violation[];
  /** Milliseconds after which a retry may succeed; undefined if unknown. */
  retryDelayMs: number | undefined;
  /** The id under which the server logs the call. */
  requestId: string | undefined;
}

/** Decodes any thrown value. A value that is not a failed call's error has `Code.Unknown`. */
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
