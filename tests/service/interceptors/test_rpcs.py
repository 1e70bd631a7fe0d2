"""The properties of RPCs, as read from the descriptors."""

from typing import Any

import pytest
from google.protobuf.descriptor_pool import Default
from grpc import aio
from sluice.v1 import rpc_pb2

from service.generation.caller import Scope
from service.interceptors.rpcs import MONITORING, RPCS
from service.server.services import SERVICES
from tests.service.fakes import running


@pytest.mark.parametrize("name", RPCS)
def test_every_rpc_declares_its_properties(name: str) -> None:
    """An RPC with a missing or incomplete option `policy` fails this test."""
    service, _, method = name.partition("/")
    (descriptor,) = [each for each in Default().FindServiceByName(service).methods if each.name == method]
    options: Any = descriptor.GetOptions()
    assert options.HasExtension(rpc_pb2.policy), f"{name} needs `option (policy)`"
    policy = options.Extensions[rpc_pb2.policy]
    assert policy.kind != rpc_pb2.RPC_KIND_UNSPECIFIED
    assert policy.deadline_class != rpc_pb2.DEADLINE_CLASS_UNSPECIFIED
    assert rpc_pb2.SCOPE_UNSPECIFIED not in policy.scopes
    assert RPCS[name].kind == policy.kind
    assert {scope.name for scope in RPCS[name].scopes} == {
        rpc_pb2.Scope.Name(scope).removeprefix("SCOPE_") for scope in policy.scopes
    }


def test_contract_and_keys_file_have_the_same_scopes() -> None:
    """The scopes of the enum are exactly the values that a keys file accepts."""
    names = [name.removeprefix("SCOPE_") for name in rpc_pb2.Scope.keys()]  # noqa: SIM118  an enum wrapper
    assert names == ["UNSPECIFIED", *(scope.name for scope in Scope)]


def test_only_load_reports_are_monitoring_rpcs() -> None:
    """Monitoring calls are served above the limit of concurrent calls."""
    assert {"sluice.v1.ModelService/GetLoad", "vllm.grpc.engine.VllmEngine/GetLoads"} == MONITORING


async def test_the_server_registers_every_service() -> None:
    """Every service of the contract is served."""
    assert {rpc.service for rpc in RPCS.values()} == set(SERVICES)
    async with running() as run:
        for name in RPCS:
            begin: Any = run.channel.unary_stream(f"/{name}", request_serializer=None)
            call = begin(b"")
            try:
                await call.read()  # some streams have no end
            except aio.AioRpcError as error:
                assert error.code().name != "UNIMPLEMENTED", name  # noqa: PT017  most requests are invalid
            call.cancel()
