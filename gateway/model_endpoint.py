"""The list of models, in the OpenAI style. Used on the event loop."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from gateway.client import Caller, ServiceClient
from gateway.dialects.call import Translator
from gateway.dialects.failure import Failure
from gateway.dialects.openai_model import to_model, to_model_list
from gateway.endpoint import send_json, send_refusal


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """An ASGI application: all models, or the one that the path names. `translator` shapes its errors."""

    translator: Translator
    client: ServiceClient

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        caller = Caller(scope["state"]["request_id"], request.headers.get("authorization"))
        try:
            if (name := request.path_params.get("model")) is not None:
                body = to_model(await self.client.get_model(name, caller))
            else:
                body = to_model_list(await self.client.list_models(caller))
        except Failure as failure:
            await send_refusal(send, self.translator.refuse(failure), failure)
        else:
            await send_json(send, 200, body)
