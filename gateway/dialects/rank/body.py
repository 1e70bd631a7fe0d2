"""The bodies of reranking and scoring. Null is equivalent to an absent field everywhere."""

from __future__ import annotations

from typing import Final

import msgspec
from sluice.v1 import rank_pb2
from sluice.v1.serving_pb2 import ERROR_BEHAVIOR_TRUNCATE

from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_limit import check_length, put
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.model_name import ModelName

_WHOLE_MODEL: Final = -1  # value of vLLM's truncate_prompt_tokens: the model's maximum length
_OPTIONS: Final = {
    "options.max_tokens_per_document": "max_tokens_per_doc",
    "options": "",
    "serving": "",
}


class DocumentBody(msgspec.Struct):
    """A document as an object; other fields are ignored."""

    text: str


class _Common(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The shared fields of both bodies. Ranges are the contract's."""

    model: ModelName = None
    max_tokens_per_doc: int | None = None
    truncation: bool | None = None
    truncate_prompt_tokens: int | None = None
    instruction: str | None = None
    raw_scores: bool | None = None
    use_activation: bool | None = None
    priority: int | None = None
    user: str | None = None

    def _fill(self, request: rank_pb2.RankRequest | rank_pb2.ScoreRequest, *, truncates: bool) -> None:
        """Set the shared fields; `truncates` is the default for long texts. Raise Failure."""
        if self.truncate_prompt_tokens is not None:
            if self.truncate_prompt_tokens != _WHOLE_MODEL:
                raise Failure.of_field(
                    "truncate_prompt_tokens", "must be -1, which stands for the model's maximum length"
                )
            truncates = True
        if self.truncation is not None:
            truncates = self.truncation
        put(request.options, "max_tokens_per_document", self.max_tokens_per_doc, "max_tokens_per_doc")
        put(request.serving, "priority", self.priority, "priority")
        request.options.instruction = self.instruction or ""
        request.options.raw_scores = bool(self.raw_scores) or self.use_activation is False
        if truncates:
            request.serving.error_behavior = ERROR_BEHAVIOR_TRUNCATE


class RerankBody(_Common, kw_only=True):
    """The body of a rerank request, with Cohere's, Jina's and vLLM's field names."""

    query: str
    documents: list[str | DocumentBody]
    top_n: int | None = None
    top_k: int | None = None
    return_documents: bool | None = None
    rank_fields: list[str] | None = None
    max_chunks_per_doc: int | None = None
    return_embeddings: bool | None = None

    @property
    def texts(self) -> list[str]:
        """Return the documents' texts."""
        return [each if isinstance(each, str) else each.text for each in self.documents]

    def to_request(self) -> rank_pb2.RankRequest:
        """Return the contract's request. Raise Failure for unsupported values, and for values outside its types."""
        if self.rank_fields not in (None, ["text"]):
            text = 'must be ["text"]; include other fields in the text'
            raise Failure.of_field("rank_fields", text, Reason.UNSUPPORTED_FIELD)
        if self.return_embeddings:
            text = "must be false; POST /v1/embeddings returns embeddings"
            raise Failure.of_field("return_embeddings", text, Reason.UNSUPPORTED_FIELD)
        check_length(rank_pb2.RankRequest, "documents", self.documents, "documents")
        request = rank_pb2.RankRequest(model=self.model or "", query=self.query, documents=self.texts)
        if self.top_k is not None and self.top_n not in {None, self.top_k}:
            raise Failure.of_field("top_k", "conflicts with top_n; give only one of them")
        put(request, "top_n", self.top_n, "top_n")
        put(request, "top_n", self.top_k, "top_k")
        self._fill(request, truncates=True)
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of `field`: `documents[1]` → `documents.1.text`, if it is an object."""
        path = renamed(dotted(field), _OPTIONS)
        if path == "top_n" and self.top_n is None:
            return "top_k"
        head, _, index = path.partition(".")
        is_object = head == "documents" and index.isdecimal() and not isinstance(self.documents[int(index)], str)
        return f"{path}.text" if is_object else path


class ScoreBody(_Common, kw_only=True):
    """The body of a score request, with vLLM's field names: two texts, or queries and documents."""

    text_1: str | list[str] | None = None
    text_2: str | list[str] | None = None
    queries: str | list[str] | None = None
    documents: str | list[str] | None = None

    def to_request(self) -> rank_pb2.ScoreRequest:
        """Return the contract's request. Raise Failure for a value outside the contract's types."""
        first, second = self._texts("text_1", "queries"), self._texts("text_2", "documents")
        check_length(rank_pb2.ScoreRequest, "queries", first, self._name("text_1", "queries"))
        check_length(rank_pb2.ScoreRequest, "documents", second, self._name("text_2", "documents"))
        request = rank_pb2.ScoreRequest(model=self.model or "", queries=first, documents=second)
        self._fill(request, truncates=False)
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of `field`: `queries[1]` → `text_1.1`, or `text_1` if that is a single text."""
        names = {"queries": self._name("text_1", "queries"), "documents": self._name("text_2", "documents")}
        path = renamed(dotted(field), {**_OPTIONS, **names})
        head, dot, _ = path.partition(".")
        is_one = dot and head in names.values() and isinstance(getattr(self, head), str)
        return head if is_one else path

    def _texts(self, name: str, other: str) -> list[str]:
        """Return the texts in one of two fields. Raise Failure unless exactly one is given."""
        texts, others = getattr(self, name), getattr(self, other)
        if texts is not None and others is not None:
            raise Failure.of_field(other, f"conflicts with {name}; give only one of them")
        given = others if texts is None else texts
        if given is None:
            raise Failure.of_field(name, "required, but missing", Reason.MISSING_FIELD)
        return [given] if isinstance(given, str) else given

    def _name(self, name: str, other: str) -> str:
        """Return the name of the field that the caller used."""
        return name if getattr(self, other) is None else other
