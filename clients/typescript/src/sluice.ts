// A client for each service of the contract, over any of Connect's transports.
import { type Client, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { AdapterService } from "./gen/sluice/v1/adapter_pb.js";
import { BatchService } from "./gen/sluice/v1/batch_pb.js";
import { ChatService } from "./gen/sluice/v1/chat_pb.js";
import { CompletionService } from "./gen/sluice/v1/completion_pb.js";
import { ConversationService } from "./gen/sluice/v1/conversation_pb.js";
import { EmbeddingService } from "./gen/sluice/v1/embedding_pb.js";
import { EndpointService } from "./gen/sluice/v1/endpoint_pb.js";
import { FileService } from "./gen/sluice/v1/file_pb.js";
import { ModelService } from "./gen/sluice/v1/model_pb.js";
import { OperationService } from "./gen/sluice/v1/operation_pb.js";
import { QuotaService } from "./gen/sluice/v1/quota_pb.js";
import { RankService } from "./gen/sluice/v1/rank_pb.js";
import { ReceiptService } from "./gen/sluice/v1/receipt_pb.js";
import { ResponseService } from "./gen/sluice/v1/response_pb.js";
import { TextGenerationService } from "./gen/sluice/v1/text_generation_pb.js";
import { TokenService } from "./gen/sluice/v1/token_pb.js";
import { WatermarkService } from "./gen/sluice/v1/watermark_pb.js";
import { MAX_RETRIES, retrying } from "./retries.js";

/** The options of a client. */
export interface Options {
  /** The API key, if the server requires one. */
  key?: string;
  /** The deadline of calls that set none, in milliseconds. Default: none. */
  timeoutMs?: number;
  /** How often a call is repeated that the server rejects for a time; see `retrying`. Default: 3. */
  maxRetries?: number;
  /** Connect's interceptors, around every attempt of a call. */
  interceptors?: Interceptor[];
}

/** The services of a server. Each method takes a message, or its fields, and options: `signal`, `timeoutMs`, `headers`. */
export interface Sluice {
  readonly chat: Client<typeof ChatService>;
  readonly completions: Client<typeof CompletionService>;
  readonly responses: Client<typeof ResponseService>;
  readonly conversations: Client<typeof ConversationService>;
  readonly files: Client<typeof FileService>;
  readonly batches: Client<typeof BatchService>;
  readonly textGeneration: Client<typeof TextGenerationService>;
  readonly embeddings: Client<typeof EmbeddingService>;
  readonly ranks: Client<typeof RankService>;
  readonly tokens: Client<typeof TokenService>;
  readonly models: Client<typeof ModelService>;
  readonly operations: Client<typeof OperationService>;
  readonly endpoints: Client<typeof EndpointService>;
  readonly quotas: Client<typeof QuotaService>;
  readonly receipts: Client<typeof ReceiptService>;
  readonly adapters: Client<typeof AdapterService>;
  readonly watermarks: Client<typeof WatermarkService>;
}

/** Returns the services over the given transport. */
export function over(transport: Transport): Sluice {
  return {
    chat: createClient(ChatService, transport),
    completions: createClient(CompletionService, transport),
    responses: createClient(ResponseService, transport),
    conversations: createClient(ConversationService, transport),
    files: createClient(FileService, transport),
    batches: createClient(BatchService, transport),
    textGeneration: createClient(TextGenerationService, transport),
    embeddings: createClient(EmbeddingService, transport),
    ranks: createClient(RankService, transport),
    tokens: createClient(TokenService, transport),
    models: createClient(ModelService, transport),
    operations: createClient(OperationService, transport),
    endpoints: createClient(EndpointService, transport),
    quotas: createClient(QuotaService, transport),
    receipts: createClient(ReceiptService, transport),
    adapters: createClient(AdapterService, transport),
    watermarks: createClient(WatermarkService, transport),
  };
}

/** Returns the options of a transport. */
export function transportOptions(baseUrl: string, { key, timeoutMs, maxRetries = MAX_RETRIES, interceptors = [] }: Options) {
  const bearing: Interceptor = (next) => (request) => {
    if (key !== undefined) request.header.set("authorization", `Bearer ${key}`);
    return next(request);
  };
  const all = { baseUrl, interceptors: [retrying(maxRetries), bearing, ...interceptors] };
  return timeoutMs === undefined ? all : { ...all, defaultTimeoutMs: timeoutMs };
}
