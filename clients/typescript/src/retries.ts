// Retries of calls that the server rejected for a time.
import { Code, ConnectError, type Interceptor, type UnaryRequest, type StreamRequest } from "@connectrpc/connect";
import { refusalOf } from "./refusal.js";
import { isRepeatable, withId } from "./repeats.js";

/** The number of retries of a call by default. */
export const MAX_RETRIES = 3;
const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 3_000;

/**
 * Returns an interceptor that repeats calls that failed with UNAVAILABLE or RESOURCE_EXHAUSTED, up to `maxRetries`
 * times, after the delay that the server names, otherwise after 0.2, 0.4, 0.8 s and so on. The call's deadline and
 * `signal` end the wait. Never repeated are calls that change models, adapters or endpoints, or that create a
 * conversation, its items, a file or a batch, and no stream that has started. A response is created once, since its
 * request has an id.
 */
export function retrying(maxRetries: number): Interceptor {
  return (next) => async (request) => {
    if (!isRepeatable(request.method)) return next(request);
    const repeatable = await copies(request);
    for (let retry = 0; ; retry++) {
      try {
        const response = await next(repeatable());
        return response.stream ? { ...response, message: await begun(response.message) } : response;
      } catch (error) {
        if (retry >= maxRetries || !isTemporary(error)) throw error;
        const delayMs = refusalOf(error).retryDelayMs ?? Math.min(FIRST_DELAY_MS * 2 ** retry, MAX_DELAY_MS);
        await pause(delayMs, request.signal);
      }
    }
  };
}

function isTemporary(error: unknown): boolean {
  const { code } = ConnectError.from(error);
  return code === Code.Unavailable || code === Code.ResourceExhausted;
}

/** Returns a function that returns the request again, since the messages of a streaming request can be read only once. */
async function copies(request: UnaryRequest | StreamRequest): Promise<() => UnaryRequest | StreamRequest> {
  if (!request.stream) {
    const whole = { ...request, message: withId(request.message) } as UnaryRequest;
    return () => whole;
  }
  const messages: object[] = [];
  for await (const message of request.message) messages.push(withId(message));
  return () => ({ ...request, message: each(messages) }) as StreamRequest;
}

async function* each<T>(values: Iterable<T>): AsyncGenerator<T> {
  yield* values;
}

/** Returns the messages of a stream once it has its first one, or throws the error that the stream began with. */
async function begun<T>(messages: AsyncIterable<T>): Promise<AsyncIterable<T>> {
  const iterator = messages[Symbol.asyncIterator]();
  let first: IteratorResult<T> | undefined = await iterator.next();
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () => {
        const known = first;
        first = undefined;
        return known ?? iterator.next();
      },
      return: async (value?: unknown) => (await iterator.return?.(value)) ?? { done: true, value: undefined },
    }),
  };
}

/** Resolves after a time in milliseconds, or rejects with the signal's reason as soon as it is aborted. */
function pause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(ConnectError.from(signal.reason));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, delayMs);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
