"""The services of the contract: their names, request messages and servicers."""

from __future__ import annotations

from grpc import aio
from grpc_health.v1 import health_pb2_grpc
from sluice.inference import inference_pb2_grpc
from sluice.v1 import (
    adapter_pb2_grpc,
    batch_pb2_grpc,
    chat_pb2_grpc,
    completion_pb2_grpc,
    conversation_pb2_grpc,
    embedding_pb2_grpc,
    endpoint_pb2_grpc,
    file_pb2_grpc,
    model_pb2_grpc,
    operation_pb2_grpc,
    quota_pb2_grpc,
    rank_pb2_grpc,
    receipt_pb2_grpc,
    response_pb2_grpc,
    text_generation_pb2_grpc,
    token_pb2_grpc,
    watermark_pb2_grpc,
)
from sluice.vllm import engine_pb2_grpc

from service.answering.background.background_responses import BackgroundResponses
from service.answering.batches.batches import Batches
from service.answering.batches.files import Files
from service.answering.conversations import Conversations
from service.answering.embeddings import Embeddings
from service.answering.generation import Answering
from service.answering.idempotent_calls import IdempotentCalls
from service.answering.replays import Replays
from service.answering.stored_responses import StoredResponses
from service.deployment.endpoint_changes import EndpointChanges
from service.deployment.model_changes import ModelChanges
from service.deployment.operations.shared_operations import SharedOperations
from service.deployment.residency.residency import Residency
from service.interceptors.errors import report_error
from service.interceptors.rpcs import RPCS
from service.observability.health import Health
from service.observability.telemetry import Telemetry
from service.prompts.preparing.workers import Workers
from service.quota.quota import Quota
from service.receipts.signing_key import SigningKey
from service.registry.registry import Registry
from service.servicers.batch import BatchServicer
from service.servicers.chat import ChatServicer
from service.servicers.completion import CompletionServicer
from service.servicers.conversation import ConversationServicer
from service.servicers.embedding import EmbeddingServicer
from service.servicers.file import FileServicer
from service.servicers.inference.servicer import InferenceServicer
from service.servicers.models.adapter import AdapterServicer
from service.servicers.models.endpoint import EndpointServicer
from service.servicers.models.model import ModelServicer
from service.servicers.models.operation import OperationServicer
from service.servicers.quota import QuotaServicer
from service.servicers.rank import RankServicer
from service.servicers.receipt import ReceiptServicer
from service.servicers.reflection import add_reflection
from service.servicers.response import ResponseServicer
from service.servicers.text_generation import TextGenerationServicer
from service.servicers.token import TokenServicer
from service.servicers.vllm.servicer import VllmServicer
from service.servicers.watermark import WatermarkServicer

SERVICES = tuple(sorted({rpc.service for rpc in RPCS.values()}))
HEALTH_SERVICE = "grpc.health.v1.Health"

REQUESTS = tuple({rpc.request for rpc in RPCS.values()})


def add_services(
    server: aio.Server,
    *,
    health: Health,
    answering: Answering,
    calls: IdempotentCalls,
    stored: StoredResponses,
    background: BackgroundResponses | None,
    conversations: Conversations,
    files: Files,
    batches: Batches,
    embeddings: Embeddings,
    registry: Registry,
    models: ModelChanges,
    operations: SharedOperations,
    endpoints: EndpointChanges,
    residency: Residency,
    readers: Workers,
    quota: Quota,
    receipt_key: SigningKey | None,
    telemetry: Telemetry,
) -> None:
    """Register all servicers with a server, and health and reflection."""
    embedding, rank = EmbeddingServicer(embeddings), RankServicer(registry, telemetry, quota, residency)
    inference = InferenceServicer(
        answering,
        embedding,
        rank,
        registry=registry,
        changes=models,
        residency=residency,
        health=health,
        report_error=report_error,
    )
    inference_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(inference, server)
    vllm = VllmServicer(answering, embeddings, registry=registry, residency=residency, health=health)
    engine_pb2_grpc.add_VllmEngineServicer_to_server(vllm, server)
    chat_pb2_grpc.add_ChatServiceServicer_to_server(ChatServicer(answering, calls), server)
    completion_pb2_grpc.add_CompletionServiceServicer_to_server(CompletionServicer(answering, calls), server)
    response_pb2_grpc.add_ResponseServiceServicer_to_server(
        ResponseServicer(answering, calls, stored, background, Replays(receipt_key, answering, stored)), server
    )
    conversation_pb2_grpc.add_ConversationServiceServicer_to_server(ConversationServicer(conversations), server)
    text_generation_pb2_grpc.add_TextGenerationServiceServicer_to_server(
        TextGenerationServicer(answering, calls), server
    )
    adapter_pb2_grpc.add_AdapterServiceServicer_to_server(AdapterServicer(models), server)
    file_pb2_grpc.add_FileServiceServicer_to_server(FileServicer(files), server)
    batch_pb2_grpc.add_BatchServiceServicer_to_server(BatchServicer(batches), server)
    embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server(embedding, server)
    endpoint_pb2_grpc.add_EndpointServiceServicer_to_server(EndpointServicer(registry, endpoints), server)
    model_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelServicer(registry, models, operations, telemetry, residency, quota), server
    )
    operation_pb2_grpc.add_OperationServiceServicer_to_server(OperationServicer(operations), server)
    quota_pb2_grpc.add_QuotaServiceServicer_to_server(QuotaServicer(quota), server)
    rank_pb2_grpc.add_RankServiceServicer_to_server(rank, server)
    receipt_pb2_grpc.add_ReceiptServiceServicer_to_server(ReceiptServicer(receipt_key), server)
    token_pb2_grpc.add_TokenServiceServicer_to_server(TokenServicer(registry, readers, quota, stored), server)
    watermark_pb2_grpc.add_WatermarkServiceServicer_to_server(WatermarkServicer(registry, readers, quota), server)
    health_pb2_grpc.add_HealthServicer_to_server(health.servicer, server)
    add_reflection(server, [*SERVICES, HEALTH_SERVICE])
