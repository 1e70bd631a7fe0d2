"""sluice.v1.AdapterService. `service.interceptors.auth` decides who may call it."""

from __future__ import annotations

from sluice.v1 import adapter_pb2, adapter_pb2_grpc

from service.calls.call import current_caller
from service.contract.models.model import adapter_message
from service.contract.parts.page import page_of
from service.deployment.changes import LoadedAdapter
from service.deployment.model_changes import ModelChanges


class AdapterServicer(adapter_pb2_grpc.AdapterServiceServicer):
    """Loads, unloads and lists adapters."""

    def __init__(self, changes: ModelChanges) -> None:
        self._changes = changes

    async def LoadAdapter(  # noqa: N802
        self,
        request: adapter_pb2.LoadAdapterRequest,
        context: object,  # noqa: ARG002
    ) -> adapter_pb2.LoadAdapterResponse:
        entry = LoadedAdapter(model=request.model, name=request.name, path=request.path)
        adapter = await self._changes.load_adapter(entry, current_caller())
        return adapter_pb2.LoadAdapterResponse(adapter=adapter_message(adapter))

    async def UnloadAdapter(  # noqa: N802
        self,
        request: adapter_pb2.UnloadAdapterRequest,
        context: object,  # noqa: ARG002
    ) -> adapter_pb2.UnloadAdapterResponse:
        await self._changes.unload_adapter(request.model, request.name, current_caller())
        return adapter_pb2.UnloadAdapterResponse()

    async def ListAdapters(  # noqa: N802
        self,
        request: adapter_pb2.ListAdaptersRequest,
        context: object,  # noqa: ARG002
    ) -> adapter_pb2.ListAdaptersResponse:
        adapters = self._changes.adapters(current_caller(), request.model)
        page, token = page_of(adapters, lambda each: each.served.name, request, f"adapters of {request.model}")
        return adapter_pb2.ListAdaptersResponse(adapters=map(adapter_message, page), next_page_token=token)
