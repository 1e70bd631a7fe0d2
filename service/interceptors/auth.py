"""Authenticate and authorize calls.

Sets the caller of each call. The message of a rejected call is not read, since it may be large. Health checks and
reflection need no credential: balancers have no keys, and reflection describes only the published contract. Runs on the
event loop's thread only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import grpc
from grpc import aio
from sluice.v1 import rpc_pb2

from service.auth.authenticator import Authenticator
from service.auth.errors import AuthError, AuthOff, ScopeMissing
from service.auth.operator_access import OperatorAccess
from service.calls.call import current_call
from service.generation.caller import Caller, Scope
from service.interceptors.policy import API, Context, Continuation, Handler, behaviour_of, with_behaviour
from service.interceptors.rpcs import HEALTH, RPCS

_REQUIRED: Final = ("x-sluice-auth", "required")  # sent by gateways that are reachable from other machines
_FOREIGN: Final = ("x-sluice-auth", "foreign")  # sent for requests with a foreign Host or Origin
_ONLY_LOCAL: Final = (
    "takes requests without one only if their Host is localhost or an IP address, and from web pages only if these are "
    "its own or in allowed_origins (cors_origins of sluice serve); auth.allow_anonymous: true of the gateway takes all"
)
_CHANGES: Final = {rpc_pb2.RPC_KIND_CHANGE, rpc_pb2.RPC_KIND_UNSPECIFIED}
_NAMED_SCOPE: Final = "x-sluice-scope"
_BEARER: Final = "bearer "
_KEY_NAMES: Final = ("api-key", "x-api-key")


class Auth(aio.ServerInterceptor):
    """Admits calls whose credential is valid and has a required scope.

    Without an authenticator all calls are admitted, except changes of models, adapters and endpoints, which `operator`
    checks, and calls that a proxy marks.
    """

    def __init__(self, authenticator: Authenticator | None, operator: OperatorAccess) -> None:
        self._authenticator = authenticator
        self._operator = operator

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(API):
            return handler
        metadata = handler_call_details.invocation_metadata or ()
        method = handler_call_details.method.removeprefix("/")
        if method in HEALTH:
            return handler
        if self._authenticator is None:
            try:
                self._check_anonymous(method, metadata)
            except AuthError as error:
                return _rejecting(error)
            return handler
        try:
            caller = await self._authenticator.identify(credential(metadata))
            check_scope(method, caller)
            _check_named_scope(metadata, caller)
        except AuthError as error:
            return _rejecting(error)
        return _of(caller, handler)

    def _check_anonymous(self, method: str, metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Raise AuthError for a call that is not admitted while authentication is off."""
        if _REQUIRED in metadata:
            raise AuthOff
        if _FOREIGN in metadata:
            raise AuthOff(_ONLY_LOCAL)
        if RPCS[method].kind in _CHANGES:
            self._operator.check(credential(metadata))


def credential(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """Return the credential of a call: its bearer token, else its `api-key`, else its `x-api-key`."""
    found: dict[str, str] = {}
    for name, value in metadata:
        if isinstance(value, str):
            found.setdefault(name, value)
    authorization = found.get("authorization", "")
    if authorization[: len(_BEARER)].lower() == _BEARER:
        return authorization[len(_BEARER) :].strip()
    return next((found[name].strip() for name in _KEY_NAMES if name in found), None)


def check_scope(method: str, caller: Caller) -> None:
    """Raise ScopeMissing if the caller may not call `method` ("package.Service/Method")."""
    needed = RPCS[method].scopes
    if needed and caller.scopes.isdisjoint(needed):
        raise ScopeMissing(needed)


def _check_named_scope(metadata: Iterable[tuple[str, str | bytes]], caller: Caller) -> None:
    """Check the scope that the gateway requires of the clients of pages that it serves itself."""
    for name, value in metadata:
        if name == _NAMED_SCOPE and value not in caller.scopes:
            raise ScopeMissing({scope for scope in Scope if scope == value})


def _of(caller: Caller, handler: Handler) -> Handler:
    """Return a handler that runs with the caller set in the current call."""
    proceed = behaviour_of(handler)

    async def behaviour(request: Any, context: Context) -> Any:
        if (call := current_call()) is not None:
            call.caller = caller
            call.add_log_fields({"key": caller.id})
        return await proceed(request, context)

    return with_behaviour(handler, behaviour)


def _rejecting(error: AuthError) -> Handler:
    """Return a handler that rejects a call; it is a stream handler, which runs before a message is read."""

    async def reject(requests: object, context: Context) -> None:  # noqa: ARG001  a handler's signature
        raise error

    wrapped: Handler = grpc.stream_stream_rpc_method_handler(reject)
    return wrapped
