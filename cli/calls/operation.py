"""Loads of models as operations of a server: a bar shows them, and Ctrl-C cancels them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import typer

from cli.calls.load_bar import LoadBar
from cli.calls.options import print_text
from cli.calls.rpc import call
from cli.calls.server import ServerError

_INTERVAL_NS: Final = 300_000_000  # between updates of the bar

_Call: TypeAlias = Callable[[str, Any, Any], Any]  # of a method, with a request and the type of its answer


def load(url: str, key: str, ca_file: str, method: str, request: Any, answer: Any) -> Any:
    """Call LoadModel or WakeModel, and return its response when the model is loaded. Raise ServerError.

    Ctrl-C cancels the load, and raises typer.Exit with 130. A server without operations returns at the end.
    """
    model = request.name if method == "LoadModel" else request.model
    # Replicas without a shared store know their own operations only: behind Envoy, this header leads to one of them.
    send = partial(call, url, key, ca_file, metadata=(("x-sluice-affinity", f"load {model}"),))
    request.background = True
    answered = send(f"sluice.v1.ModelService/{method}", request, answer)
    if answered.HasField("operation"):
        _until_ended(answered.operation, send)
    return answered


def _until_ended(operation: Any, send: _Call) -> None:
    """Return when an operation has succeeded. Raise ServerError if it fails."""
    from sluice.v1 import operation_pb2  # noqa: PLC0415  imported on use, for a fast start

    bar = LoadBar(operation.model)
    request = operation_pb2.WaitOperationRequest(id=operation.id)
    if bar.is_shown:
        request.timeout.FromNanoseconds(_INTERVAL_NS)
    try:
        while operation.state == operation_pb2.OPERATION_STATE_RUNNING:
            bar.update(operation)
            answer = send("sluice.v1.OperationService/WaitOperation", request, operation_pb2.WaitOperationResponse)
            operation = answer.operation
    except KeyboardInterrupt:
        bar.clear()
        _cancel(operation, send)
        raise typer.Exit(130) from None
    finally:
        bar.clear()
    if operation.state == operation_pb2.OPERATION_STATE_CANCELLED:
        raise ServerError(f"the load of {operation.model} was cancelled")
    if operation.state == operation_pb2.OPERATION_STATE_FAILED:
        error = operation.error
        raise ServerError(f"{error.field}: {error.message}" if error.field else error.message)


def _cancel(operation: Any, send: _Call) -> None:
    """Cancel an operation, and print how it ended. Raise ServerError."""
    from sluice.v1 import operation_pb2  # noqa: PLC0415  imported on use, for a fast start

    request = operation_pb2.CancelOperationRequest(id=operation.id)
    answer = send("sluice.v1.OperationService/CancelOperation", request, operation_pb2.CancelOperationResponse)
    is_cancelled = answer.operation.state == operation_pb2.OPERATION_STATE_CANCELLED
    outcome = "is cancelled" if is_cancelled else "had ended before it was cancelled"
    print_text(f"sluice: the load of {operation.model} {outcome}", err=True)
