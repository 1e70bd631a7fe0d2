"""Databricks: its responses. Their fields are those of the OpenAI style; limits and errors are its own."""

from __future__ import annotations

from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.databricks.tool import check_tools
from gateway.dialects.openai_family.response_body import ResponseBody
from gateway.dialects.openai_family.response_encoder import ResponseEncoder
from gateway.dialects.openai_family.response_reader import ResponseReader


class DatabricksResponseEncoder(ResponseEncoder):
    """Encodes one answer."""

    ping = b""  # as everywhere on Databricks' paths


class DatabricksResponseTranslator(DatabricksErrors, ResponseReader):
    """Translates one request for a response."""

    encoder = DatabricksResponseEncoder

    def check(self, body: ResponseBody) -> None:
        """Raise Failure for more tools, or more parameters of one, than are documented."""
        check_tools(
            [
                (f"tools.{i}.parameters", tool.parameters)
                if tool.function is None
                else (f"tools.{i}.function.parameters", tool.function.parameters)
                for i, tool in enumerate(body.tools or ())
            ]
        )
