"""Calls that the server's event loop does not take up."""

from __future__ import annotations

import asyncio
import time

import grpc
import pytest
from sluice.v1 import model_pb2, model_pb2_grpc

from service.server.listener import MAX_UNREQUESTED_S
from tests.service.fakes import running

NUM_CALLS = 8


@pytest.mark.slow
async def test_calls_that_were_never_requested_end_after_seconds() -> None:
    """Calls that have waited while the event loop was held are ended, without gRPC's own limit of 30 s."""
    async with running() as run:
        stub = model_pb2_grpc.ModelServiceStub(run.channel)
        await stub.ListModels(model_pb2.ListModelsRequest())
        address = f"127.0.0.1:{run.port}"

        def call() -> grpc.StatusCode:
            with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                try:
                    model_pb2_grpc.ModelServiceStub(channel).ListModels(model_pb2.ListModelsRequest())
                except grpc.RpcError as error:
                    return error.code()
                return grpc.StatusCode.OK

        codes: set[grpc.StatusCode] = set()
        arrival_s = 1
        while grpc.StatusCode.CANCELLED not in codes:  # calls that arrived near the end of the hold prove nothing
            arrival_s *= 2
            calls = [asyncio.create_task(asyncio.to_thread(call)) for _ in range(NUM_CALLS)]
            await asyncio.sleep(0)
            time.sleep(MAX_UNREQUESTED_S + arrival_s)  # noqa: ASYNC251  holds the loop, as a long computation would
            codes = set(await asyncio.gather(*calls))
            assert codes <= {grpc.StatusCode.CANCELLED, grpc.StatusCode.OK}
