"""LlamaIndex, instructor and DSPy, as their documentation points them to a server in the OpenAI style."""

import asyncio
import os
import tempfile

os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "DSPY_CACHEDIR": tempfile.mkdtemp(),
}  # no prices from the network

from typing import Any, Literal

import dspy
import instructor
from instructor.core import InstructorRetryException
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from openai import OpenAI
from pydantic import BaseModel, Field

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
QUESTION = "What is the capital of France?"
MESSAGES: Any = [{"role": "user", "content": QUESTION}]


class City(BaseModel):
    """What a city is here."""

    name: str = Field(max_length=30)
    capital: bool


def llama(url: str, **options: Any) -> OpenAILike:
    """A model, configured as LlamaIndex documents for OpenAI-compatible servers."""
    settings: Any = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 2048, **options}
    return OpenAILike(
        model=MODEL, api_base=f"{url}/v1", api_key="unused", temperature=0, max_tokens=200, max_retries=0, **settings
    )


def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"sunny in {city}, 20 degrees"


def check_llama_index_chats_and_completes(url: str, _: str) -> None:
    """Streams add up to the unstreamed answer, answers can be sent back, and a base model completes text."""
    question = ChatMessage(role=MessageRole.USER, content=QUESTION)
    whole = llama(url).chat([question])
    assert "Paris" in str(whole.message.content)
    *_, last = llama(url).stream_chat([question])
    assert last.message.content == whole.message.content
    assert llama(url).chat([question, last.message, question]).message.content
    assert llama(url, is_chat_model=False).complete("The capital of France is").text


def check_llama_index_calls_tools(url: str, _: str) -> None:
    """A tool is called, streamed and unstreamed, and its result is used in the answer."""
    tool = FunctionTool.from_defaults(get_weather)
    model = llama(url)
    question = ChatMessage(role=MessageRole.USER, content="What is the weather in Oslo?")
    answer = model.chat_with_tools([tool], chat_history=[question])
    (call,) = model.get_tool_calls_from_response(answer)
    assert (call.tool_name, call.tool_kwargs) == ("get_weather", {"city": "Oslo"})
    *_, streamed = model.stream_chat_with_tools([tool], chat_history=[question])
    for each in (answer, streamed):
        (made,) = model.get_tool_calls_from_response(each)
        assert made.tool_kwargs == call.tool_kwargs
        result = ChatMessage(role=MessageRole.TOOL, content="sunny", additional_kwargs={"tool_call_id": made.tool_id})
        assert model.chat_with_tools([tool], chat_history=[question, each.message, result]).message.content


def check_llama_index_runs_agents(url: str, _: str) -> None:
    """LlamaIndex' agent calls the tool and reports the result."""

    async def run() -> str:
        agent: Any = FunctionAgent(tools=[get_weather], llm=llama(url), streaming=True)
        return str(await agent.run("What is the weather in Oslo?"))

    assert "sunny" in asyncio.run(run())


def check_llama_index_embeds(url: str, _: str) -> None:
    """Texts and queries are embedded."""
    embeddings = OpenAILikeEmbedding(model_name=EMBEDDER, api_base=f"{url}/v1", api_key="unused", max_retries=0)
    assert [len(each) for each in embeddings.get_text_embedding_batch(["a cat", "a motorway"])] == [384, 384]
    assert len(embeddings.get_query_embedding("a cat")) == 384


def check_instructor_returns_models(url: str, _: str) -> None:
    """A pydantic model and a stream of partial ones are returned, by a required call and by JSON Schema."""
    options: Any = {"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": 300, "max_retries": 0}
    for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
        client: Any = instructor.from_openai(OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0), mode=mode)
        assert isinstance(client.chat.completions.create(response_model=City, **options), City), mode
        *_, partial = client.chat.completions.create_partial(response_model=City, **options)
        assert isinstance(partial.capital, bool), mode


def check_instructor_retries_invalid_answers(url: str, _: str) -> None:
    """An invalid answer is sent back with the reason, until one is valid or no attempts remain."""

    class Nothing(BaseModel):
        """A city that fails validation."""

        name: Literal["Oslo", "Paris"]

        def model_post_init(self, _: Any) -> None:
            """Reject any value."""
            raise ValueError(self.name)

    client: Any = instructor.from_openai(OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0))
    attempts: list[Any] = []
    client.on("completion:kwargs", lambda *_, **kwargs: attempts.append(kwargs["messages"]))
    try:
        client.chat.completions.create(
            model=MODEL, messages=MESSAGES, response_model=Nothing, max_retries=2, max_tokens=200, temperature=0
        )
    except InstructorRetryException as error:
        assert error.n_attempts >= 2, error
        assert "Oslo" in str(error) or "Paris" in str(error), error
    else:
        raise AssertionError


def check_dspy_continues_a_history(url: str, _: str) -> None:
    """The model answers, answers are history, and a pydantic model defines the answer's schema."""
    options: Any = {"temperature": 0, "max_tokens": 300, "cache": False, "num_retries": 0}
    model = dspy.LM(f"openai/{MODEL}", api_base=f"{url}/v1", api_key="unused", **options)
    (answer,) = model(QUESTION)
    assert "Paris" in answer
    assert model(messages=[*MESSAGES, {"role": "assistant", "content": answer}, *MESSAGES])[0]
    assert City.model_validate_json(model(QUESTION, response_format=City)[0]).name
