"""LangChain's package for Cohere: a compressor of documents that a retriever found."""

from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from pydantic import SecretStr

ENCODER = "all-minilm-l6-v2"
TEXTS = ["interest rates rose again", "a cat sleeps on the mat", "a motorway at night"]


def check_compressor(url: str, _: str) -> None:
    """The best documents are returned, with their scores in the metadata."""
    reranker = CohereRerank(model=ENCODER, base_url=url, cohere_api_key=SecretStr("unused"), top_n=2)
    documents = [Document(text, metadata={"place": place}) for place, text in enumerate(TEXTS)]
    found = reranker.compress_documents(documents, "a kitten")
    assert found[0].metadata["place"] == 1
    assert len(found) == 2
    assert found[0].metadata["relevance_score"] > found[1].metadata["relevance_score"]


def check_rerank(url: str, _: str) -> None:
    """Reranking plain texts returns indexes and scores."""
    reranker = CohereRerank(model=ENCODER, base_url=url, cohere_api_key=SecretStr("unused"))
    found = reranker.rerank(TEXTS, "a kitten", top_n=1)
    assert [each["index"] for each in found] == [1]
