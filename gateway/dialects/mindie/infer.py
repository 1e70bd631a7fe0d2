"""Inference by tensors at `/v2/models/{model}[/versions/{version}]/infer`, as in KServe's open inference protocol.

The service has the same protocol over gRPC, and gives names and parameters of tensors their meaning.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson
from sluice.inference import inference_pb2

from gateway.dialects.mindie.error import MindieErrors
from gateway.dialects.mindie.infer_body import BINARY_SIZE, FIELDS, JSON_LENGTH, InferBody
from gateway.dialects.seam.encoder import FramedAnswer, WholeEncoder
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest

_DECODER: Final = msgspec.json.Decoder(InferBody)


class InferTranslator(MindieErrors):
    """Translates one request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[inference_pb2.ModelInferRequest]:
        """Parse a request. Raise Failure."""
        content, binary = _split(http_request)
        body = decode(content, _DECODER)
        path = http_request.path
        request = body.to_request(path["model"], path.get("version", ""), binary)
        return ParsedRequest(request, stream=False, encoder=InferEncoder(), caller_name=str)


def _split(http_request: HttpRequest) -> tuple[bytes, bytes]:
    """Return the JSON of a body, and the bytes after it. Raise Failure."""
    body = http_request.body
    if (text := http_request.headers.get(JSON_LENGTH)) is None:
        return body, b""
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(len(body))) or int(text) > len(body):
        raise Failure.of_field(JSON_LENGTH, f"must be the length of the JSON, at most {len(body)}")
    return body[: int(text)], body[int(text) :]


class InferEncoder(WholeEncoder):
    """Encodes an answer: tensors with raw elements follow the JSON, the others are part of it."""

    def whole(self, response: inference_pb2.ModelInferResponse) -> bytes:
        """Return the body of the answer."""
        raw = response.raw_output_contents
        outputs: list[dict[str, Any]] = []
        for index, output in enumerate(response.outputs):
            fields: dict[str, Any] = {
                "name": output.name,
                "datatype": output.datatype,
                "shape": list(output.shape),
            }
            if raw:
                fields["parameters"] = {BINARY_SIZE: len(raw[index])}
            else:
                elements = getattr(output.contents, FIELDS[output.datatype])
                is_text = output.datatype == "BYTES"
                fields["data"] = [each.decode() for each in elements] if is_text else list(elements)
            outputs.append(fields)
        head = orjson.dumps(
            {
                "id": response.id,
                "model_name": response.model_name,
                "model_version": response.model_version,
                "outputs": outputs,
            }
        )
        if not raw:
            return head
        answer = FramedAnswer(b"".join((head, *raw)))
        answer.headers = ((JSON_LENGTH.encode(), b"%d" % len(head)),)
        return answer
