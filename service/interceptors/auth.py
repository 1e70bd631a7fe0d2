"""Authenticate and authorise calls.

Sets each call's caller. A call that is refused here has not been read: its message may be large, and is its sender's
trouble. Health and reflection pass by: balancers have no keys, and reflection tells no more than the published
contract. Only the loop's thread runs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import grpc
from grpc import aio

from service.auth.authenticator import Authenticator
from service.auth.errors import AuthError, AuthOff, ScopeMissing
from service.call import current_call
from service.generation.caller import Caller, Scope
from service.interceptors.policy import API, Context, Continuation, Handler, behaviour_of, with_behaviour
from service.interceptors.rpcs import RPCS

_REQUIRED: Final = ("x-sluice-auth", "required")  # says a gateway that others than its machine can reach
_NAMED_SCOPE: Final = "x-sluice-scope"
_BEARER: Final = "bearer "
_KEY_NAMES: Final = ("api-key", "x-api-key")


class Auth(aio.ServerInterceptor):
    """Lets in whose credential is good, to what its scopes allow; without an authenticator, everybody to everything."""

    def __init__(self, authenticator: Authenticator | None) -> None:
        self._authenticator = authenticator

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(API):
            return handler
        metadata = handler_call_details.invocation_metadata or ()
        if self._authenticator is None:
            return _refusing(AuthOff()) if _REQUIRED in metadata else handler
        try:
            caller = await self._authenticator.identify(credential(metadata))
            check_scope(handler_call_details.method.removeprefix("/"), caller)
            _check_named_scope(metadata, caller)
        except AuthError as error:
            return _refusing(error)
        return _of(caller, handler)


def credential(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """What a call says who it is by: its bearer token, else its `api-key`, else its `x-api-key`."""
    found: dict[str, str] = {}
    for name, value in metadata:
        if isinstance(value, str):
            found.setdefault(name, value)
    authorization = found.get("authorization", "")
    if authorization[: len(_BEARER)].lower() == _BEARER:
        return authorization[len(_BEARER) :].strip()
    return next((found[name].strip() for name in _KEY_NAMES if name in found), None)


def check_scope(method: str, caller: Caller) -> None:
    """Raises ScopeMissing if the caller may not call `method` ("package.Service/Method")."""
    needed = RPCS[method].scopes
    if needed and caller.scopes.isdisjoint(needed):
        raise ScopeMissing(needed)


def _check_named_scope(metadata: Iterable[tuple[str, str | bytes]], caller: Caller) -> None:
    """The gateway asks so for a scope that no RPC has, of the caller of a page that it answers itself."""
    for name, value in metadata:
        if name == _NAMED_SCOPE and value not in caller.scopes:
            raise ScopeMissing({scope for scope in Scope if scope == value})


def _of(caller: Caller, handler: Handler) -> Handler:
    proceed = behaviour_of(handler)

    async def behaviour(request: Any, context: Context) -> Any:
        if (call := current_call()) is not None:
            call.caller = caller
            call.add_log_fields({"key": caller.id})
        return await proceed(request, context)

    return with_behaviour(handler, behaviour)


def _refusing(error: AuthError) -> Handler:
    """Of the kind that begins before a message came, whatever the RPC is: a refused message is never read."""

    async def refuse(requests: object, context: Context) -> None:  # noqa: ARG001  a handler's signature
        raise error

    made: Handler = grpc.stream_stream_rpc_method_handler(refuse)
    return made
