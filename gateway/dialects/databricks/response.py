"""Responses of Databricks: fields as in the OpenAI style, with Databricks' limits and errors."""

from __future__ import annotations

from gateway.dialects.databricks.defaults import DEFAULT_EFFORT
from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.databricks.target import endpoint_name
from gateway.dialects.databricks.tool import check_tools
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.dialects.openai_family.responses.encoder import ResponseEncoder
from gateway.dialects.openai_family.responses.reader import ResponseReader
from gateway.dialects.openai_family.responses.tool_kind import parameters_of
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest


class DatabricksResponseEncoder(ResponseEncoder):
    """Encodes one answer."""

    ping = b""  # as on all of Databricks' paths


class DatabricksResponseTranslator(DatabricksErrors, ResponseReader):
    """Translates one request for a response."""

    encoder = DatabricksResponseEncoder
    default_effort = DEFAULT_EFFORT

    def check(self, body: ResponseBody) -> None:
        """Raise Failure for what this API lacks, and for more tools or parameters of one tool than the limits."""
        if body.background:
            raise Failure.of_field("background", "must be false in this API", Reason.UNSUPPORTED_FIELD)
        if body.conversation is not None:
            raise Failure.of_field("conversation", "not supported in this API", Reason.UNSUPPORTED_FIELD)
        check_tools([parameters_of(each) for each in body.offered_tools()])


class InvocationResponseTranslator(DatabricksResponseTranslator):
    """Translates one request for a response of the endpoint in the path. It streams only if requested."""

    def model(self, http_request: HttpRequest, body: ResponseBody) -> str:
        """Return the endpoint's name. Raise Failure if the body has another name."""
        return endpoint_name(http_request, body.model)
