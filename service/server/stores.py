"""The stores of keys, endpoints, changed models and responses that the settings choose: files, Redis, or memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from service.answering.background.job_runner import JobRunner
from service.answering.batches.batch_runner import BatchRunner
from service.answering.batches.line_answers import LineAnswers
from service.answering.generation import Answering
from service.answering.stored_responses import StoredResponses
from service.auth.authenticator import Authenticator
from service.auth.keys import shared_keys
from service.auth.keys.key_entry import KeysError
from service.auth.keys.shared_keys import SharedKeys
from service.auth.operator_access import OperatorAccess
from service.auth.tokens.signers import SignersError
from service.calls.errors import InvalidMessage
from service.contract.batches.batch import error_bytes
from service.contract.models.endpoint_json import EndpointJson
from service.deployment.changes import Changes, ChangesJson
from service.deployment.endpoint_document import EndpointDocument
from service.deployment.model_changes import ModelChanges
from service.deployment.operations.operation import OperationError
from service.deployment.operations.operations import Operations
from service.deployment.operations.records import OperationRecords, RecordsJson
from service.deployment.operations.shared_operations import SharedOperations
from service.generation.errors import InvalidRequest
from service.interceptors.status_table import described
from service.observability.store_metrics import BatchMetrics
from service.observability.telemetry import Telemetry
from service.receipts.signing_key import KeyFileError, SigningKey
from service.server.listener import StartError
from service.settings.batch_settings import BatchSettings
from service.settings.config import Settings
from service.settings.stored_response_settings import StoredResponseSettings
from service.storage.document import DocumentStore, MemoryDocument, SharedDocument
from service.storage.responses.batch_port import BatchLimits
from service.storage.responses.port import ResponseStore, StoreFailed, StoreLimits
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.seal import Seal
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from service.storage.responses.store_thread import StoreThread
from service.storage.shared_file import SharedFile
from service.storage.shared_text import SharedText

_ENDPOINTS: Final = "endpoints"  # names of the texts in Redis
_MODELS: Final = "models"
_OPERATIONS: Final = "operations"


def endpoint_store(settings: Settings) -> DocumentStore[EndpointDocument]:
    """The store of the endpoints that clients create."""
    if settings.store.redis_url is not None:
        text = SharedText(settings.store.redis_url, _ENDPOINTS, settings.store.redis_timeout_s)
        return SharedDocument(text, EndpointJson(is_strict=False))
    if settings.endpoints_file is not None:
        return SharedDocument(SharedFile(settings.endpoints_file), EndpointJson(is_strict=True))
    return MemoryDocument(EndpointDocument())


def change_store(settings: Settings) -> DocumentStore[Changes]:
    """The store of the models and adapters that clients load and unload."""
    if settings.store.redis_url is not None:
        name = f"{_MODELS}:{settings.store.pool}" if settings.store.pool else _MODELS
        return SharedDocument(SharedText(settings.store.redis_url, name, settings.store.redis_timeout_s), ChangesJson())
    if settings.loaded_models_file is not None:
        return SharedDocument(SharedFile(settings.loaded_models_file), ChangesJson())
    return MemoryDocument(Changes())


def shared_operations(settings: Settings, changes: ModelChanges) -> SharedOperations:
    """The operations of all replicas."""
    return SharedOperations(Operations(changes, _described_error), _operation_store(settings), _described_error)


def _operation_store(settings: Settings) -> DocumentStore[OperationRecords]:
    """The store of the operations that replicas show each other: that of the models that clients load."""
    if settings.store.redis_url is not None:
        name = f"{_OPERATIONS}:{settings.store.pool}" if settings.store.pool else _OPERATIONS
        return SharedDocument(SharedText(settings.store.redis_url, name, settings.store.redis_timeout_s), RecordsJson())
    if (file := settings.loaded_models_file) is not None:
        return SharedDocument(SharedFile(file.with_name(f".{file.name}.{_OPERATIONS}")), RecordsJson())
    return MemoryDocument(OperationRecords())


def response_store(settings: Settings) -> StoreThread | None:
    """The store of responses, or None if clients may store none. Raise StartError."""
    chosen = settings.stored_responses
    limits = StoreLimits(
        max_age_s=chosen.max_age_s, max_bytes_per_owner=chosen.max_bytes_per_key, max_bytes=chosen.max_bytes
    )
    open_store: Callable[..., ResponseStore]
    if chosen.postgres_url is not None:
        open_store = partial(
            PostgresStore,
            chosen.postgres_url,
            limits,
            password_file=chosen.postgres_password_file,
            timeout_s=chosen.timeout_s,
        )
    elif chosen.file is not None:
        open_store = partial(SqliteStore, chosen.file, limits)
    else:
        return None
    try:
        seal = None if chosen.encryption_key_file is None else Seal.from_file(chosen.encryption_key_file)
        return StoreThread(
            partial(open_store, seal=seal, batch_limits=_batch_limits(settings.batches)), chosen.timeout_s
        )
    except StoreFailed as error:
        raise StartError(f"stored_responses: {error}") from error


def _batch_limits(settings: BatchSettings) -> BatchLimits:
    return BatchLimits(
        max_files=settings.max_files_per_key,
        max_batches=settings.max_batches_per_key,
        max_lines=settings.max_requests,
        max_file_bytes=settings.max_file_bytes,
        max_bytes_per_owner=settings.max_bytes_per_key,
        max_bytes=settings.max_bytes,
    )


def batch_runner(settings: Settings, store: StoreThread, answers: LineAnswers, telemetry: Telemetry) -> BatchRunner:
    """The answering of batches."""
    return BatchRunner(
        store,
        answers,
        described_line,
        BatchMetrics(telemetry),
        max_running=settings.batches.max_running,
        lease_s=settings.stored_responses.lease_s,
    )


def described_line(error: Exception) -> bytes:
    """Return an error of a request in a batch in the form in which it is stored."""
    reason, text = described(error)
    if isinstance(error, InvalidMessage):
        return error_bytes(reason, error.violations[0].description, error.violations[0].field)
    return error_bytes(reason, text, error.field if isinstance(error, InvalidRequest) else "")


def _described_error(error: Exception) -> OperationError:
    """Return the error of an operation as clients see it."""
    reason, text = described(error)
    return OperationError(reason, text, error.field if isinstance(error, InvalidRequest) else "")


def job_runner(
    settings: StoredResponseSettings, store: StoreThread, answering: Answering, stored: StoredResponses
) -> JobRunner:
    """The generation of responses in the background."""
    return JobRunner(store, answering, stored, described, max_running=settings.max_background, lease_s=settings.lease_s)


def operator_access(settings: Settings) -> OperatorAccess:
    """Access to changes while authentication is off. Raises StartError."""
    try:
        return OperatorAccess.from_settings(settings.auth)
    except KeysError as error:
        raise StartError(f"auth.operator_token_file: {error}") from error


def authenticator(settings: Settings) -> Authenticator | None:
    """The configured authenticator, or None if authentication is off. Raise StartError."""
    try:
        shared = None
        if settings.auth.keys_in_store and settings.store.redis_url is not None:
            text = SharedText(settings.store.redis_url, shared_keys.NAME, settings.store.redis_timeout_s)
            shared = SharedKeys(text)
        return Authenticator(settings.auth, shared) if settings.auth.is_on else None
    except KeysError as error:
        raise StartError(f"auth.{'keys_in_store' if settings.auth.keys_in_store else 'keys_file'}: {error}") from error
    except SignersError as error:
        raise StartError(f"auth.jwks: {error}") from error


def receipt_key(settings: Settings) -> SigningKey | None:
    """The key that signs receipts, or None if none is configured. Raise StartError."""
    file = settings.receipts.key_file
    try:
        return None if file is None else SigningKey.from_file(file)
    except KeyFileError as error:
        raise StartError(f"receipts.key_file: {error}") from error
