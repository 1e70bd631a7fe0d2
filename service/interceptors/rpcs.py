"""The RPCs of the contract with their properties, read from the method options `sluice.v1.policy`."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import sluice.inference
import sluice.v1
import sluice.vllm
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from sluice.v1 import rpc_pb2

from service.generation.caller import Scope


@dataclass(frozen=True, slots=True)
class Rpc:
    """One RPC: its service, the type of its request, its kind, and the scopes, of which a key needs at least one.

    Empty `scopes` admit every valid key. An RPC without options has the kind RPC_KIND_UNSPECIFIED and requires the
    scope `admin`.
    """

    service: str
    request: type[Message]
    kind: rpc_pb2.RpcKind = rpc_pb2.RPC_KIND_UNSPECIFIED
    scopes: frozenset[Scope] = frozenset({Scope.ADMIN})


def _rpcs() -> Iterator[tuple[str, Rpc]]:
    """Yield every RPC of the contract with its name."""
    for package in (sluice.v1, sluice.inference, sluice.vllm):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name.endswith("_pb2"):
                for service in import_module(module.name).DESCRIPTOR.services_by_name.values():
                    for method in service.methods:
                        yield f"{service.full_name}/{method.name}", _rpc(method)


def _rpc(method: MethodDescriptor) -> Rpc:
    """Return what a method's options declare."""
    service, request = method.containing_service.full_name, GetMessageClass(method.input_type)
    options: Any = method.GetOptions()  # the type stubs do not declare extensions
    if not options.HasExtension(rpc_pb2.policy):
        return Rpc(service, request)
    policy: rpc_pb2.RpcPolicy = options.Extensions[rpc_pb2.policy]
    scopes = frozenset(Scope[rpc_pb2.Scope.Name(scope).removeprefix("SCOPE_")] for scope in policy.scopes)
    return Rpc(service, request, policy.kind, scopes)


RPCS: Final[Mapping[str, Rpc]] = dict(_rpcs())  # by "package.Service/Method"
MONITORING: Final = frozenset(name for name, rpc in RPCS.items() if rpc.kind == rpc_pb2.RPC_KIND_MONITORING)
HEALTH: Final = frozenset(name for name, rpc in RPCS.items() if rpc.kind == rpc_pb2.RPC_KIND_HEALTH)
