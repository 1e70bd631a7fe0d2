"""The stores of keys and endpoints, by the settings: files, or what replicas share."""

from __future__ import annotations

from service.auth import shared_keys
from service.auth.authenticator import Authenticator
from service.auth.key_entry import KeysError
from service.auth.shared_keys import SharedKeys
from service.auth.signers import SignersError
from service.contract.model import EndpointJson
from service.deployment import change_store as change_stores
from service.deployment.change_store import ChangeFile, ChangeStore, SharedChanges
from service.listener import StartError
from service.registry import shared_endpoints
from service.registry.endpoint_file import EndpointFile
from service.registry.shared_endpoints import SharedEndpoints
from service.settings.config import Settings
from service.storage.shared_text import SharedText


def endpoint_store(settings: Settings) -> EndpointFile | SharedEndpoints | None:
    """Where endpoints that callers make are kept; None if nowhere."""
    if settings.store.redis_url is not None:
        text = SharedText(settings.store.redis_url, shared_endpoints.NAME, settings.store.redis_timeout_s)
        return SharedEndpoints(text, EndpointJson())
    return None if settings.endpoints_file is None else EndpointFile(settings.endpoints_file, EndpointJson())


def change_store(settings: Settings) -> ChangeStore | None:
    """Where it is kept which models and adapters callers have loaded; None if nowhere."""
    if settings.store.redis_url is not None:
        name = f"{change_stores.NAME}:{settings.store.pool}" if settings.store.pool else change_stores.NAME
        return SharedChanges(SharedText(settings.store.redis_url, name, settings.store.redis_timeout_s))
    return None if settings.loaded_models_file is None else ChangeFile(settings.loaded_models_file)


def authenticator(settings: Settings) -> Authenticator | None:
    """Who tells callers by their keys; None if nobody needs one. Raises StartError."""
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
