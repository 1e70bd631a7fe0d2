"""sluice.v1.ReceiptService."""

from __future__ import annotations

from sluice.v1 import receipt_pb2, receipt_pb2_grpc

from service.receipts.signing_key import SigningKey


class ReceiptServicer(receipt_pb2_grpc.ReceiptServiceServicer):
    """Implements ReceiptService."""

    def __init__(self, key: SigningKey | None) -> None:
        self._keys = [] if key is None else [receipt_pb2.ReceiptKey(id=key.id, public_key=key.public_key)]

    async def ListReceiptKeys(  # noqa: N802
        self,
        request: receipt_pb2.ListReceiptKeysRequest,  # noqa: ARG002
        context: object,  # noqa: ARG002
    ) -> receipt_pb2.ListReceiptKeysResponse:
        return receipt_pb2.ListReceiptKeysResponse(keys=self._keys)
