"""sluice.v1.QuotaService."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from sluice.v1 import quota_pb2, quota_pb2_grpc

from service.calls.call import current_caller
from service.contract.parts.answer import timestamp
from service.quota.quota import Quota
from service.quota.usage import LimitState


class QuotaServicer(quota_pb2_grpc.QuotaServiceServicer):
    """Implements QuotaService."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota

    async def GetUsage(self, request: quota_pb2.GetUsageRequest, context: object) -> quota_pb2.GetUsageResponse:  # noqa: ARG002, N802
        caller = current_caller()
        usage = await self._quota.usage_of(caller)
        return quota_pb2.GetUsageResponse(
            key=caller.id,
            since=timestamp(usage.used.since_ns),
            models=[
                quota_pb2.ModelUsage(
                    model=model,
                    requests=used.num_requests,
                    input_tokens=used.num_input,
                    output_tokens=used.num_output,
                    rejected_requests=used.num_rejected,
                )
                for model, used in sorted(usage.used.by_model.items())
            ],
            limits=map(_limit_message, usage.limits),
        )


def _limit_message(state: LimitState) -> quota_pb2.LimitState:
    message = quota_pb2.LimitState(
        quota_metric=state.limit.measure.value,
        model=state.limit.model,
        limit=state.limit.value,
        remaining=state.num_left,
    )
    if state.reset_s is not None:
        reset_after = Duration()
        reset_after.FromNanoseconds(round(state.reset_s * 1e9))
        message.reset_after.CopyFrom(reset_after)
    return message
