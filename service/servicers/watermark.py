"""sluice.v1.WatermarkService. Texts are scored on worker threads."""

from __future__ import annotations

from sluice.v1 import watermark_pb2, watermark_pb2_grpc

from service.answering.admission import admitted
from service.answering.generation import Context
from service.calls.call import current_caller, deadline_of, route_call
from service.prompts.preparing.workers import Workers
from service.quota.quota import Quota
from service.registry.registry import Registry


class WatermarkServicer(watermark_pb2_grpc.WatermarkServiceServicer):
    """Implements WatermarkService."""

    def __init__(self, registry: Registry, workers: Workers, quota: Quota) -> None:
        """`workers` are shared by all models and separate from those of generation requests."""
        self._registry = registry
        self._workers = workers
        self._quota = quota

    async def DetectWatermark(  # noqa: N802
        self,
        request: watermark_pb2.DetectWatermarkRequest,
        context: Context,
    ) -> watermark_pb2.DetectWatermarkResponse:
        model = self._registry.visible_to(current_caller(), route_call).generator(request.model)
        async with admitted(self._quota, model.name, ()):
            score = await self._workers.read(
                lambda: model.watermark.score(request.text),
                deadline_of(context),
                "text",
                num_characters=len(request.text),
            )
        return watermark_pb2.DetectWatermarkResponse(
            z_score=score.z_score,
            num_tokens=score.num_tokens,
            green_fraction=score.green_fraction,
            p_value=score.p_value,
        )
