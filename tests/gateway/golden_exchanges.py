"""The golden exchanges: requests of every dialect, and the service's answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.gateway import golden_answers
from tests.gateway.golden_exchange import MESSAGES, MODEL, TOOL, Body, Exchange
from tests.gateway.golden_openai_exchanges import AZURE, openai_exchanges
from tests.gateway.golden_service import Answers


def _messages() -> Iterator[Exchange]:
    """Return the exchanges of Anthropic's messages."""
    path, headers = "/v1/messages", {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    body = {**MODEL, "max_tokens": 100, "system": "Be brief.", "messages": MESSAGES[1:]}
    tool = {"name": "look", "input_schema": {"type": "object", "maximum": 1.0}}
    features: dict[str, Body] = {
        "text": {"temperature": 0.5, "seed": 42, "stop_sequences": ["END"]},
        "reasoning": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        "tools": {"tools": [tool], "tool_choice": {"type": "auto"}},
    }
    for feature, fields in features.items():
        name, answers = f"anthropic_message_{feature}", golden_answers.CHATS[feature]
        yield Exchange(name, path, body | fields, answers, headers)
        yield Exchange(f"{name}_stream", path, body | fields | {"stream": True}, answers, headers)
    yield Exchange("anthropic_message_cut_off", path, body | {"stream": True}, golden_answers.CUT_OFF, headers)
    for reason, status in golden_answers.STATUSES.items():
        yield Exchange(f"anthropic_message_{reason}", path, body, golden_answers.refused(status), headers)
    yield Exchange("anthropic_message_missing", path, {**MODEL, "messages": MESSAGES[1:]}, {}, headers)
    yield Exchange("anthropic_message_thread", path, body | {"thread": {"type": "create"}}, {}, headers)
    counted = {name: value for name, value in body.items() if name != "max_tokens"}
    yield Exchange("anthropic_count", f"{path}/count_tokens", counted, golden_answers.COUNT, headers)
    yield Exchange("anthropic_models", "/v1/models?limit=1", None, golden_answers.MODELS, headers, method="GET")
    yield Exchange("anthropic_model", "/v1/models/m", None, golden_answers.MODELS, headers, method="GET")


def _cohere() -> Iterator[Exchange]:
    """Return the exchanges of Cohere's chats and embeddings."""
    body = {**MODEL, "messages": MESSAGES}
    features: dict[str, Body] = {
        "text": {"temperature": 0.5, "seed": 42, "k": 0, "p": 0.5, "stop_sequences": ["END"]},
        "reasoning": {"thinking": {"type": "enabled", "token_budget": 9}},
        "tools": {"tools": [TOOL], "strict_tools": True, "tool_choice": "REQUIRED"},
        "logprobs": {"logprobs": True, "documents": ["a"], "response_format": {"type": "json_object"}},
    }
    for feature, fields in features.items():
        name, answers = f"cohere_chat_{feature}", golden_answers.CHATS[feature]
        yield Exchange(name, "/v2/chat", body | fields, answers)
        yield Exchange(f"{name}_stream", "/v2/chat", body | fields | {"stream": True}, answers)
    yield Exchange("cohere_chat_cut_off", "/v2/chat", body | {"stream": True}, golden_answers.CUT_OFF)
    for reason, status in golden_answers.STATUSES.items():
        yield Exchange(f"cohere_chat_{reason}", "/v2/chat", body, golden_answers.refused(status))
    texts = {**MODEL, "texts": ["a", "ä"], "input_type": "search_query", "output_dimension": 2}
    kinds = {"embedding_types": ["float", "int8", "ubinary", "base64"]}
    yield Exchange("cohere_embed", "/v2/embed", texts | kinds, golden_answers.VECTORS)
    yield Exchange("cohere_embed_missing", "/v2/embed", {**MODEL}, {})


def _ollama() -> Iterator[Exchange]:
    """Return the exchanges of Ollama's chats, generations and models."""
    chat = {"model": "m:latest", "messages": MESSAGES}
    options = {"temperature": 0.5, "seed": 42, "top_k": -1, "num_predict": 9, "stop": ["END"], "repeat_penalty": 1.1}
    result = {"role": "tool", "tool_name": "look", "content": "a cat"}
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {"x": 1.0}}}]}
    features: dict[str, Body] = {
        "text": {"options": options, "format": "json", "keep_alive": "5m"},
        "reasoning": {"think": "low", "truncate": False, "format": {"type": "object"}},
        "tools": {"tools": [TOOL], "messages": [*MESSAGES, call, result]},
        "logprobs": {"logprobs": True, "top_logprobs": 1},
    }
    for feature, fields in features.items():
        name, answers = f"ollama_chat_{feature}", golden_answers.timed(golden_answers.CHATS[feature])
        yield Exchange(name, "/api/chat", chat | fields | {"stream": False}, answers)
        yield Exchange(f"{name}_stream", "/api/chat", chat | fields, answers)
    yield Exchange("ollama_chat_cut_off", "/api/chat", chat, golden_answers.CUT_OFF)
    yield Exchange("ollama_chat_load", "/api/chat", {**MODEL}, golden_answers.MODELS)
    for reason, status in golden_answers.STATUSES.items():
        yield Exchange(f"ollama_chat_{reason}", "/api/chat", chat, golden_answers.refused(status))
    prompt = {**MODEL, "prompt": "hi"}
    image = {"system": "Be brief.", "images": ["iVBORw0="], "think": True}
    timed = golden_answers.timed(golden_answers.CHATS["reasoning"])
    yield Exchange("ollama_generate_text", "/api/generate", prompt | image | {"stream": False}, timed)
    yield Exchange("ollama_generate_text_stream", "/api/generate", prompt | image, timed)
    timed = golden_answers.timed(golden_answers.COMPLETIONS["text"])
    yield Exchange("ollama_generate_raw", "/api/generate", prompt | {"raw": True, "stream": False}, timed)
    yield Exchange("ollama_generate_raw_stream", "/api/generate", prompt | {"raw": True}, timed)
    yield Exchange("ollama_generate_load", "/api/generate", {**MODEL, "keep_alive": 0}, golden_answers.MODELS)
    yield Exchange("ollama_generate_context", "/api/generate", prompt | {"context": [1]})
    yield Exchange("ollama_show", "/api/show", {"model": "m:latest"}, golden_answers.MODELS)
    for name in ("tags", "ps", "version"):
        yield Exchange(f"ollama_{name}", f"/api/{name}", None, golden_answers.MODELS, method="GET")
    yield Exchange("ollama_pull", "/api/pull", {**MODEL}, golden_answers.MODELS)
    yield Exchange("ollama_no_method", "/api/chat", None, method="GET")


def _ranks() -> Iterator[Exchange]:
    rerank = {**MODEL, "query": "a", "documents": ["b", {"text": "c", "url": "d"}]}
    score = {**MODEL, "text_1": "a", "text_2": ["b", "c"]}
    for name, path, body in (
        ("rerank_v1", "/v1/rerank", rerank | {"top_n": 2}),
        ("rerank_v2", "/v2/rerank", rerank | {"return_documents": True, "max_tokens_per_doc": 9}),
        ("rerank", "/rerank", rerank),
        ("score_v1", "/v1/score", score),
        ("score", "/score", score | {"text_1": ["a", "d"], "truncate_prompt_tokens": -1}),
    ):
        yield Exchange(f"{name}_answer", path, body, golden_answers.RANKS)
        yield Exchange(f"{name}_nobody", path, body, golden_answers.refused(golden_answers.NOBODY))
        yield Exchange(f"{name}_kind", path, body | {"model": 5})


def _generations() -> Iterator[Exchange]:
    everything = {"details": True, "perf_stat": True, "do_sample": True, "seed": 42, "temperature": 0.5, "top_k": 10}
    details = {"id": "a1", "parameters": {"details": True}}
    whole, stream = "/v2/models/m/generate", "/v2/models/m/generate_stream"
    cases: list[tuple[str, str, Body, Answers]] = [
        ("text", whole, {}, golden_answers.GENERATION),
        ("details", "/v2/models/m/versions/2/generate", details, golden_answers.STOPPED_GENERATION),
        ("everything", whole, {"parameters": everything}, {**golden_answers.GENERATION, **golden_answers.MODELS}),
        ("full", whole, {}, golden_answers.refused(golden_answers.FULL)),
        ("range", whole, {"parameters": {"temperature": 0}}, {}),
        ("stream_text", stream, {}, golden_answers.GENERATION),
        ("stream_details", "/v2/models/m/versions/2/generate_stream", details, golden_answers.STOPPED_GENERATION),
    ]
    for name, path, fields, answers in cases:
        yield Exchange(f"mindie_generate_{name}", path, {"text_input": "My name is"} | fields, answers)
    tensors = {"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["My name is"]}]}
    options = {"id": "7", "parameters": {"max_tokens": 3, "stop": ["a"], "timeout": 1_000_000}}
    yield Exchange("mindie_infer", "/v2/models/m/infer", tensors | options, golden_answers.TENSORS)
    yield Exchange("mindie_infer_missing", "/v2/models/m/infer", {}, {})
    yield Exchange("mindie_generate_stream_cut_off", stream, {"text_input": "hi"}, golden_answers.CUT_OFF_GENERATION)


def _lookups() -> Iterator[Exchange]:
    for name, path, answers in (
        ("openai_models", "/v1/models", golden_answers.MODELS),
        ("openai_model", "/v1/models/m", golden_answers.MODELS),
        ("openai_usage", "/v1/usage", golden_answers.KEY_USAGE),
        ("openai_no_method", "/v1/responses", {}),
        ("azure_info", f"/info{AZURE}", golden_answers.ENDPOINTS),
        ("mindie_model", "/v2/models/m", golden_answers.MODELS),
        ("mindie_model_ready", "/v2/models/m/ready", golden_answers.MODELS),
    ):
        yield Exchange(name, path, None, answers, method="GET")


def _endpoints() -> Iterator[Exchange]:
    root = "/api/2.0/serving-endpoints"
    entities = [{"name": name, "entity_name": "m", "workload_size": "Small"} for name in ("one", "two")]
    shares = (("one", 90), ("two", 10))
    config = {
        "served_entities": entities,
        "traffic_config": {
            "routes": [{"served_model_name": name, "traffic_percentage": share} for name, share in shares]
        },
    }
    wrong = {**config, "traffic_config": {"routes": [{"served_model_name": "three", "traffic_percentage": 100}]}}
    requests: list[tuple[str, str, str, Body | None]] = [
        ("list", "GET", root, None),
        ("get", "GET", f"{root}/ab", None),
        ("create", "POST", root, {"name": "ab", "config": config}),
        ("update", "PUT", f"{root}/ab/config", config),
        ("delete", "DELETE", f"{root}/ab", None),
    ]
    for name, method, path, body in requests:
        yield Exchange(f"endpoint_{name}", path, body, golden_answers.ENDPOINTS, method=method)
    yield Exchange("endpoint_wrong", root, {"name": "ab", "config": wrong})


ALL: Final = {
    exchange.name: exchange
    for exchange in (
        *openai_exchanges(),
        *_messages(),
        *_cohere(),
        *_ollama(),
        *_ranks(),
        *_generations(),
        *_lookups(),
        *_endpoints(),
    )
}

# Exchanges that must equal others': prefixes of their names, and of the names of the originals. Dialects of OpenAI's
# family equal OpenAI's, and versions of a path equal each other.
_RELATIVES: Final = {
    "azure_chat": "openai_chat",
    "azure_embedding": "openai_embedding",
    "databricks_chat": "openai_chat",
    "databricks_completion": "openai_completion",
    "databricks_embedding": "openai_embedding",
    "databricks_response": "openai_response",
    "invocation_chat": "openai_chat",
    "invocation_completion": "openai_completion",
    "invocation_embedding": "openai_embedding",
    "rerank_v1": "rerank",
    "rerank_v2": "rerank",
    "score_v1": "score",
}
_DIFFERENT: Final = {  # documented differences
    "invocation_chat_missing",  # the path has its own text: a body without messages may be for another task
    "invocation_completion_prompts",  # `index` is the prompt's
    "invocation_completion_prompts_stream",
    "rerank_v1_answer",  # each version has a different shape
    "rerank_v2_answer",
    "score_v1_answer",  # the request has more fields
}
RELATED: Final = [
    (exchange, ALL[original + name.removeprefix(relative)])
    for name, exchange in ALL.items()
    for relative, original in _RELATIVES.items()
    if name.startswith(f"{relative}_") and name not in _DIFFERENT
]

# The exchanges with a golden file: one per shape.
_RECORDED: Final = """
    openai_chat: text text_stream reasoning reasoning_stream tools tools_stream logprobs logprobs_stream choices_stream
        usage_stream progress_stream cut_off full long missing kind
    anthropic_message: text text_stream reasoning reasoning_stream tools tools_stream cut_off full long nobody fault
        missing thread
    anthropic: count models model
    cohere_chat: text text_stream reasoning reasoning_stream tools tools_stream logprobs logprobs_stream
        cut_off full fault long nobody
    cohere: embed embed_missing
    ollama_chat: text text_stream reasoning reasoning_stream tools tools_stream logprobs logprobs_stream cut_off load
        full fault long nobody
    ollama_generate: text text_stream raw raw_stream load context
    ollama: show tags ps version pull no_method
    openai_completion: text text_stream logprobs logprobs_stream progress_stream
    openai_embedding: float base64
    rerank: v1_answer v2_answer answer nobody kind
    score: v1_answer answer
    openai_response: text text_stream two_calls two_calls_stream reasoning reasoning_stream cut_off_stream fault
    openai: models model usage no_method input_tokens
    openai_tokenize: text chat unknown
    openai_detokenize: text
    deployment: chat
    azure_chat: text_stream cut_off full long
    azure: chosen dropped extra range info
    databricks_chat: cut_off full
    invocation_chat: text
    invocation_completion: prompts prompts_stream
    mindie_generate: text everything details full range
    mindie_generate_stream: text details cut_off
    mindie: model model_ready infer infer_missing
    endpoint: list get create update delete wrong
"""
EXCHANGES: Final = [
    ALL[f"{group}_{name}"]
    for group, names in re.findall(r"(\w+): ((?:\w+\s+)+)(?=\w+:|$)", _RECORDED)
    for name in names.split()
]
