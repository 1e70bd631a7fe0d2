"""sluice.v1.WatermarkService over the catalogue. Only the loop's thread runs it; texts are scored on another."""

from __future__ import annotations

import asyncio

from sluice.v1 import watermark_pb2, watermark_pb2_grpc

from service.servicers.catalog import Catalog


class WatermarkServicer(watermark_pb2_grpc.WatermarkServiceServicer):
    """Tells whether a model wrote a text."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def DetectWatermark(  # noqa: N802
        self,
        request: watermark_pb2.DetectWatermarkRequest,
        context: object,  # noqa: ARG002
    ) -> watermark_pb2.DetectWatermarkResponse:
        detector = self._catalog.generator(request.model).watermark
        score = await asyncio.to_thread(detector.score, request.text)
        return watermark_pb2.DetectWatermarkResponse(
            z_score=score.z_score,
            num_tokens=score.num_tokens,
            green_fraction=score.green_fraction,
            p_value=score.p_value,
        )
