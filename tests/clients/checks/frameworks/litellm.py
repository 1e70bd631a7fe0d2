"""litellm, with six of its providers."""

import gc
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads prices

from typing import Any

import litellm

# litellm leaves streams open after their last event. Collecting one closes its connection, which takes httpcore's pool
# lock; if the collection runs while that lock is held, the thread deadlocks. `finish_streams` collects outside of it.
gc.disable()

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


def finish_streams() -> None:
    """Close the connections of streams that litellm left open."""
    gc.collect()


def both_ways(model: str, **options: Any) -> None:
    """A streamed chat equals the unstreamed one."""
    options = {"model": model, "messages": MESSAGES, "temperature": 0, "max_tokens": 40, "num_retries": 0, **options}
    whole: Any = litellm.completion(**options)
    assert whole.choices[0].message.content
    chunks: Any = litellm.completion(stream=True, **options)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content, (text, whole)
    finish_streams()


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 30}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def second_turns(model: str, **options: Any) -> None:
    """An answer's message, and a call with its result, can be sent back in litellm's form."""
    options = {"model": model, "temperature": 0, "max_tokens": 60, "num_retries": 0, **options}
    message = litellm.completion(messages=MESSAGES, **options).choices[0].message
    again = litellm.completion(messages=[*MESSAGES, message, MESSAGES[0]], **options)
    assert again.choices[0].message.content
    options["_skip_mcp_handler"] = True  # tools would import `mcp`, which isn't installed
    tools = {"tools": [WEATHER], "tool_choice": "required"}
    reply = litellm.completion(messages=MESSAGES, **options, **tools).choices[0].message
    chunks = list(litellm.completion(messages=MESSAGES, stream=True, **options, **tools))
    streamed: Any = litellm.stream_chunk_builder(chunks, messages=MESSAGES)
    finish_streams()
    for kept in (reply, streamed.choices[0].message, reply.model_dump()):
        result = {"role": "tool", "tool_call_id": kept["tool_calls"][0]["id"], "content": "sunny"}
        assert litellm.completion(messages=[*MESSAGES, kept, result], tools=[WEATHER], **options).choices


def check_second_turns_openai(url: str, _: str) -> None:
    """Second turns in the OpenAI style, also by the provider for vLLM's servers."""
    second_turns(f"openai/{MODEL}", api_base=f"{url}/v1", api_key="unused")
    second_turns(f"hosted_vllm/{MODEL}", api_base=f"{url}/v1", api_key="unused")


def check_second_turns_azure(url: str, _: str) -> None:
    """Second turns in Azure's dialect, and on the paths of its deployments."""
    foundry: Any = {"api_base": url, "api_version": "2024-05-01-preview", "allowed_openai_params": ["tool_choice"]}
    second_turns(f"azure_ai/{MODEL}", api_key="unused", **foundry)
    second_turns(f"azure/{MODEL}", api_base=url, api_key="unused", api_version="2024-10-21")


def check_second_turns_databricks(url: str, _: str) -> None:
    """Second turns in Databricks' dialect."""
    second_turns(f"databricks/{MODEL}", api_base=f"{url}/serving-endpoints", api_key="unused")


def check_second_turns_anthropic(url: str, _: str) -> None:
    """Second turns in Anthropic's dialect."""
    second_turns(f"anthropic/{MODEL}", api_base=url, api_key="unused")


def check_second_turns_ollama(url: str, _: str) -> None:
    """Second turns in Ollama's dialect, whose calls the model need not make."""
    options: Any = {"model": f"ollama_chat/{MODEL}", "api_base": url, "temperature": 0, "max_tokens": 60}
    message = litellm.completion(messages=MESSAGES, num_retries=0, **options).choices[0].message
    again = litellm.completion(messages=[*MESSAGES, message, MESSAGES[0]], num_retries=0, **options)
    assert again.choices[0].message.content
    options["_skip_mcp_handler"] = True  # tools would import `mcp`, which isn't installed
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
    answer = litellm.completion(messages=[*MESSAGES, asked, result], tools=[WEATHER], num_retries=0, **options)
    assert answer.choices[0].message.content or answer.choices[0].message.tool_calls


def check_openai_provider(url: str, _: str) -> None:
    """Chat and embeddings in the OpenAI style."""
    both_ways(f"openai/{MODEL}", api_base=f"{url}/v1", api_key="unused")
    answer = litellm.embedding(f"openai/{EMBEDDER}", input=["a cat"], api_base=f"{url}/v1", api_key="unused")
    assert len(answer.data[0]["embedding"]) == 384


def check_groq_provider(url: str, _: str) -> None:
    """Chat by a provider that reads the tier of service, and sends one."""
    options: Any = {"api_base": f"{url}/v1", "api_key": "unused"}
    both_ways(f"groq/{MODEL}", **options)
    answer: Any = litellm.completion(f"groq/{MODEL}", MESSAGES, max_tokens=5, service_tier="flex", **options)
    assert answer.service_tier == "default"


def check_azure_ai_provider(url: str, _: str) -> None:
    """Chat in Azure's dialect; streams have the usage if it is requested."""
    options: Any = {"api_base": url, "api_key": "unused", "api_version": "2024-05-01-preview"}
    both_ways(f"azure_ai/{MODEL}", **options)
    usage = {"include_usage": True}
    chunks: Any = litellm.completion(f"azure_ai/{MODEL}", MESSAGES, stream=True, stream_options=usage, **options)
    assert [chunk.usage.total_tokens for chunk in chunks if getattr(chunk, "usage", None)]
    finish_streams()


def check_databricks_provider(url: str, _: str) -> None:
    """Chat and embeddings in Databricks' dialect, on the base for OpenAI clients."""
    base = f"{url}/serving-endpoints"
    both_ways(f"databricks/{MODEL}", api_base=base, api_key="unused")
    answer = litellm.embedding(f"databricks/{EMBEDDER}", input=["a cat"], api_base=base, api_key="unused")
    assert len(answer.data[0]["embedding"]) == 384


def check_ollama_provider(url: str, _: str) -> None:
    """Chats, generations and embeddings in Ollama's dialect, and its error."""
    both_ways(f"ollama_chat/{MODEL}", api_base=url)
    both_ways(f"ollama/{MODEL}", api_base=url)
    answer = litellm.embedding(f"ollama/{EMBEDDER}", input=["a cat"], api_base=url)
    assert len(answer.data[0]["embedding"]) == 384
    try:
        litellm.completion("ollama_chat/nobody", messages=MESSAGES, api_base=url, num_retries=0)
    except litellm.NotFoundError as error:
        assert "nobody" in str(error), error
    else:
        raise AssertionError


def check_triton_provider(url: str, _: str) -> None:
    """Text generation on Triton's path."""
    answer: Any = litellm.completion(
        f"triton/{MODEL}", messages=MESSAGES, max_tokens=8, api_base=f"{url}/v2/models/{MODEL}/generate"
    )
    assert answer.choices[0].message.content


def check_errors(url: str, _: str) -> None:
    """An invalid value raises litellm's typed error."""
    try:
        litellm.completion(
            f"openai/{MODEL}", messages=MESSAGES, top_p=7, api_base=f"{url}/v1", api_key="unused", num_retries=0
        )
    except litellm.BadRequestError as error:
        assert "top_p" in str(error), error
    else:
        raise AssertionError


def check_rerank(url: str, _: str) -> None:
    """Reranking works with the providers for Cohere, Jina and vLLM."""
    documents = ["interest rates rose again", "a cat sleeps on the mat", "a motorway at night"]
    for provider, base in (("cohere", url), ("jina_ai", f"{url}/v1/rerank"), ("hosted_vllm", url)):
        answer: Any = litellm.rerank(
            model=f"{provider}/{EMBEDDER}",
            query="a kitten",
            documents=documents,
            top_n=2,
            api_base=base,
            api_key="unused",
        )
        assert answer.results[0]["index"] == 1, provider
        assert len(answer.results) == 2, provider
