"""The lines of a batch in OpenAI's JSON: requests from an input file, and results in an output file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import orjson
from sluice.v1 import batch_pb2, error_pb2

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionTranslator
from gateway.dialects.openai.embedding import OpenAIEmbeddingTranslator
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.openai.stored.batch import ENDPOINTS, written_id
from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason, Violation
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest, ServiceRequest, Translator

_OTHER_ENDPOINT: Final = "the request was not one of the endpoint of the batch"
_TRANSLATORS: Final[Mapping[str, Callable[[], Translator]]] = {
    "chat": OpenAITranslator,
    "completion": OpenAICompletionTranslator,
    "response": OpenAIResponseTranslator,
    "embedding": OpenAIEmbeddingTranslator,
}


class InputLine(msgspec.Struct):
    """A line of an input file."""

    custom_id: str
    url: str
    body: msgspec.Raw
    method: str = "POST"


_DECODER: Final = msgspec.json.Decoder(InputLine)
_TEXTS_OF_DECODER: Final = {
    "Input data was truncated": "unexpected end of the text, or a \\u escape with an unpaired surrogate"
}


def to_line(text: bytes, number: int, endpoint: str) -> batch_pb2.BatchLine:
    """Return a line of the input file as the contract's. Raise Failure if it is none for the endpoint.

    An invalid body becomes an error of the line.
    """
    try:
        given = _DECODER.decode(text)
    except UnicodeDecodeError:
        raise line_failure(number, "is not valid UTF-8") from None
    except RecursionError:
        raise line_failure(number, "is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise line_failure(number, _TEXTS_OF_DECODER.get(str(error), str(error))) from None
    if given.method != "POST":
        raise line_failure(number, "method must be POST")
    if given.url != endpoint:
        raise line_failure(number, f"url must be the endpoint of the batch, {endpoint}")
    if not 0 < len(given.custom_id) <= 256:
        raise line_failure(number, "custom_id must have 1 to 256 characters")
    line = batch_pb2.BatchLine(custom_id=given.custom_id, client_data=bytes(given.body))
    name = ENDPOINTS[endpoint]
    try:
        parsed = _parsed(name, line.client_data)
    except Failure as failure:
        rejected = batch_pb2.BatchError(reason=error_pb2.ERROR_REASON_INVALID_FIELD, message=failure.message)
        line.rejected.CopyFrom(rejected)
    else:
        getattr(line, name).CopyFrom(parsed.request)
    return line


def to_output(result: batch_pb2.StreamBatchResultsResponse, batch_id: str, endpoint: str) -> bytes:
    """Return a result as a line of an output file, with its new line."""
    request_id = f"{written_id(batch_id)}_{result.index}"
    written: dict[str, Any] = {
        "id": request_id.replace("batch_", "batch_req_", 1),
        "custom_id": result.custom_id,
        "response": None,
        "error": None,
    }
    if result.error.reason == error_pb2.ERROR_REASON_BATCH_EXPIRED:
        written["error"] = {"code": "batch_expired", "message": result.error.message}
    else:
        status, body = _response(result, ENDPOINTS[endpoint])
        response = {"status_code": status, "request_id": request_id, "body": orjson.Fragment(body)}
        written["response"] = response
    return orjson.dumps(written, option=orjson.OPT_APPEND_NEWLINE)


def _response(result: batch_pb2.StreamBatchResultsResponse, name: str) -> tuple[int, bytes]:
    """Return the status and the body that the request would have got by itself."""
    try:
        parsed = _parsed(name, result.client_data)
    except Failure as rejection:
        return _written(_TRANSLATORS[name]().error_response(rejection))
    if result.HasField(name):
        return 200, parsed.encoder.whole(getattr(result, name))
    if not result.HasField("error"):  # another client has written the batch's client_data
        return _written(_TRANSLATORS[name]().error_response(Failure(Reason.INVALID_FIELD, _OTHER_ENDPOINT)))
    error = result.error
    reason = Reason.__members__.get(
        error_pb2.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_"), Reason.INTERNAL
    )
    violations = [Violation(error.field, error.message)] if error.field else []
    failure = Failure(reason, error.message, violations=violations).renamed(parsed.caller_name)
    return _written(_TRANSLATORS[name]().error_response(failure))


def _written(response: ErrorResponse) -> tuple[int, bytes]:
    return response.status, response.body


def _parsed(name: str, body: bytes) -> ParsedRequest[ServiceRequest]:
    """Return a parsed body. Raise Failure."""
    parsed = _TRANSLATORS[name]().parse(HttpRequest(body))
    if parsed.stream:
        raise Failure.of_field("stream", "must be false in a batch")
    return parsed


def line_failure(number: int, text: str) -> Failure:
    """Return the failure of a line of the input file that makes the whole batch invalid."""
    return Failure.of_field("input_file_id", f"line {number}: {text}")
