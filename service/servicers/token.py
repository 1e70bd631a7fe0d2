"""The gRPC servicer of sluice.v1.TokenService. Texts are tokenized on worker threads."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.v1 import token_pb2, token_pb2_grpc

from service.answering.admission import admitted
from service.answering.generation import Context
from service.answering.stored_responses import StoredResponses
from service.calls.call import current_caller, deadline_of, route_call
from service.contract.generations import chat
from service.contract.responses import response_request
from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest
from service.prompts.preparing.workers import Workers
from service.prompts.tokens.detokenization import detokenize
from service.quota.quota import Quota
from service.registry.models import ServedModel
from service.registry.registry import Registry


class TokenServicer(token_pb2_grpc.TokenServiceServicer):
    """Implements TokenService for all models, embedding models included."""

    def __init__(self, registry: Registry, workers: Workers, quota: Quota, stored: StoredResponses) -> None:
        """`workers` are shared by all models and separate from those of generation requests."""
        self._stored = stored
        self._registry = registry
        self._workers = workers
        self._quota = quota

    async def TokenizeText(  # noqa: N802
        self,
        request: token_pb2.TokenizeTextRequest,
        context: Context,
    ) -> token_pb2.TokenizeTextResponse:
        model = self._registry.visible_to(current_caller(), route_call).get(request.model)

        def to_response() -> token_pb2.TokenizeTextResponse:
            token_ids = _tokenize(model.tokenizer, request)
            return token_pb2.TokenizeTextResponse(
                model=model.name,
                token_ids=token_ids,
                tokens=map(model.tokenizer.token_bytes, token_ids),
                max_model_len=model.description.max_model_len,
            )

        async with admitted(self._quota, model.name, ()):
            return await self._workers.read(to_response, deadline_of(context), "text", num_characters=len(request.text))

    async def DetokenizeText(  # noqa: N802
        self,
        request: token_pb2.DetokenizeTextRequest,
        context: Context,
    ) -> token_pb2.DetokenizeTextResponse:
        model = self._registry.visible_to(current_caller(), route_call).get(request.model)

        def decode() -> str:
            return detokenize(model.tokenizer, request.token_ids, skip_special_tokens=request.skip_special_tokens)

        async with admitted(self._quota, model.name, ()):
            num_tokens = len(request.token_ids)
            text = await self._workers.read(decode, deadline_of(context), "token_ids", num_characters=num_tokens)
        return token_pb2.DetokenizeTextResponse(model=model.name, text=text)

    async def CountTokens(  # noqa: N802
        self,
        request: token_pb2.CountTokensRequest,
        context: Context,
    ) -> token_pb2.CountTokensResponse:
        kind = request.WhichOneof("prompt")
        if kind == "text":
            served, token_ids = await self._tokenize_text(request.text, deadline_of(context))
        else:
            served, token_ids = await self._render(request, deadline_of(context))

        def to_response() -> token_pb2.CountTokensResponse:
            returned = token_ids if request.return_tokens else ()
            return token_pb2.CountTokensResponse(
                model=served.name,
                num_tokens=len(token_ids),
                max_model_len=served.description.max_model_len,
                token_ids=returned,
                tokens=map(served.tokenizer.token_bytes, returned),
            )

        if not request.return_tokens:
            return to_response()
        # On a worker thread, because there may be millions of tokens.
        return await self._workers.read(
            to_response, deadline_of(context), "return_tokens", num_characters=len(token_ids)
        )

    async def _tokenize_text(
        self, request: token_pb2.TokenizeTextRequest, deadline: float | None
    ) -> tuple[ServedModel, Sequence[int]]:
        """Return the model and the tokens of a raw text."""
        model = self._registry.visible_to(current_caller(), route_call).get(request.model)
        async with admitted(self._quota, model.name, ()):
            token_ids = await self._workers.read(
                lambda: _tokenize(model.tokenizer, request), deadline, "text.text", num_characters=len(request.text)
            )
        return model, token_ids

    async def _render(
        self, request: token_pb2.CountTokensRequest, deadline: float | None
    ) -> tuple[ServedModel, Sequence[int]]:
        """Return the model and the prompt's tokens of a chat, or of the input items of a response."""
        kind = request.WhichOneof("prompt")
        try:
            if kind == "chat":
                name, deployment = request.chat.model, request.chat.serving.deployment
                conversation = chat.to_conversation(request.chat)
            else:
                name, deployment = request.response.model, request.response.serving.deployment
                response = await self._stored.with_items(request.response)
                history = await self._stored.history(response)
                conversation = response_request.to_conversation(response, history)
            model = self._registry.visible_to(current_caller(), route_call).generator(name, deployment)
            async with admitted(self._quota, model.name, ()):
                return model, await model.preparation.tokens(conversation, deadline, self._workers)
        except InvalidRequest as error:
            error.field = f"{kind}.{error.field}"
            raise


def _tokenize(tokenizer: Tokenizer, request: token_pb2.TokenizeTextRequest) -> list[int]:
    """Return the token ids of a text, by default with the special tokens that the tokenizer puts around it."""
    adds = request.add_special_tokens if request.HasField("add_special_tokens") else True
    return tokenizer.encode(request.text, add_special_tokens=adds)
