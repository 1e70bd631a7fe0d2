"""Agent frameworks that use OpenAI's client: pydantic-ai and OpenAI's Agents SDK, with tools."""

import asyncio
import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # it would send traces to OpenAI
os.environ["OPENAI_API_KEY"] = "unused"

from typing import Any

from agents import (
    Agent,
    ApplyPatchTool,
    LocalShellTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    ShellTool,
    SQLiteSession,
    StopAtTools,
    function_tool,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.openai import OpenAIResponsesModel as PydanticResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings as PydanticSettings

MODEL = "sluice-demo"
QUESTION = "What is the capital of France?"
SETTINGS = PydanticSettings(temperature=0, max_tokens=300, frequency_penalty=0.5)


class City(BaseModel):
    """What a city is here."""

    name: str
    capital: bool


def provider(url: str) -> OpenAIProvider:
    """The provider of pydantic-ai for this server."""
    return OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0))


def models(url: str) -> list[Any]:
    """pydantic-ai's two classes for OpenAI's two APIs."""
    return [OpenAIChatModel(MODEL, provider=provider(url)), PydanticResponsesModel(MODEL, provider=provider(url))]


def check_pydantic_ai_continues_a_history(url: str, _: str) -> None:
    """The messages of a run are the history of the next run, streamed and unstreamed, over chats and responses."""
    for model in models(url):
        agent = PydanticAgent(model, model_settings=PydanticSettings(temperature=0, max_tokens=60))
        first = agent.run_sync(QUESTION)
        assert "Paris" in first.output
        second = agent.run_sync("And of Norway?", message_history=first.all_messages())
        assert second.output
        assert second.usage.input_tokens > first.usage.input_tokens
        streamed = agent.run_stream_sync("And of Norway?", message_history=first.all_messages())
        assert "".join(streamed.stream_text(delta=True)) == second.output
        third = agent.run_sync("And of Italy?", message_history=streamed.all_messages())
        assert third.output


def check_pydantic_ai_calls_tools(url: str, _: str) -> None:
    """A tool is called with its arguments, and its result is used in the answer."""
    for model in models(url):
        cities: list[str] = []
        agent = PydanticAgent(model, model_settings=PydanticSettings(temperature=0, max_tokens=200))

        @agent.tool_plain  # type: ignore[misc, untyped-decorator, unused-ignore]  # untyped where it is not installed
        def get_weather(city: str) -> str:
            """Tells the weather of a city."""
            cities.append(city)  # noqa: B023  called within this round of the loop
            return "sunny, 20 degrees"

        answer = agent.run_sync("What is the weather in Oslo?")
        assert cities == ["Oslo"]
        assert "sunny" in answer.output, answer.output


def check_pydantic_ai_returns_models(url: str, _: str) -> None:
    """A pydantic model is returned by a required call whose arguments match its schema."""
    for model in models(url):
        for form in (City, NativeOutput(City)):
            agent = PydanticAgent(model, output_type=form, model_settings=SETTINGS)
            assert isinstance(agent.run_sync("Describe Paris.").output, City)


@function_tool  # type: ignore[misc, untyped-decorator, unused-ignore]  # untyped where the package is not installed
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"sunny in {city}, 20 degrees"


def agent_models(url: str) -> list[Any]:
    """The two classes of OpenAI's agents for the two APIs."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)
    return [OpenAIChatCompletionsModel(MODEL, client), OpenAIResponsesModel(MODEL, client)]


def check_openai_agents_call_tools(url: str, _: str) -> None:
    """The tool loop ends with an answer, and its items are valid as the next input."""
    for model in agent_models(url):
        settings = ModelSettings(temperature=0, max_tokens=200)
        agent = Agent(name="weather", instructions=None, model=model, tools=[get_weather], model_settings=settings)
        first = Runner.run_sync(agent, "What is the weather in Oslo?")
        assert "sunny" in first.final_output, first.final_output
        again = [*first.to_input_list(), {"role": "user", "content": "Thanks!"}]
        assert Runner.run_sync(agent, again).final_output


def check_openai_agents_stream(url: str, _: str) -> None:
    """A streamed run gives the answer of an unstreamed one, and a session stores its turns."""

    async def both(model: Any) -> None:
        agent = Agent(name="plain", model=model, model_settings=ModelSettings(temperature=0, max_tokens=60))
        session = SQLiteSession("conversation")
        whole = await Runner.run(agent, QUESTION, session=session)
        assert "Paris" in whole.final_output
        streamed = Runner.run_streamed(agent, QUESTION)
        kinds = [event.type async for event in streamed.stream_events()]
        assert "raw_response_event" in kinds
        assert streamed.final_output == whole.final_output
        assert (await Runner.run(agent, "And of Norway?", session=session)).final_output
        assert len(await session.get_items()) == 4

    async def all_models() -> None:
        for model in agent_models(url):
            await both(model)

    asyncio.run(all_models())


def check_openai_agents_return_models(url: str, _: str) -> None:
    """A pydantic model is returned by JSON Schema, and a run can stop at a tool's result."""
    for model in agent_models(url):
        settings = ModelSettings(temperature=0, max_tokens=300)
        agent: Any = Agent(name="city", model=model, output_type=City, model_settings=settings)
        assert isinstance(Runner.run_sync(agent, "Describe Paris.").final_output, City)
        stopping = Agent(
            name="weather",
            model=model,
            tools=[get_weather],
            tool_use_behavior=StopAtTools(stop_at_tool_names=["get_weather"]),
            model_settings=ModelSettings(temperature=0, max_tokens=200, tool_choice="required"),
        )
        assert Runner.run_sync(stopping, "What is the weather in Oslo?").final_output.startswith("sunny in ")


class NoEditor:
    """An editor of files that must not be called."""

    def create_file(self, operation: Any) -> Any:
        raise AssertionError(operation)

    update_file = delete_file = create_file


def no_shell(request: Any) -> str:
    """Run nothing."""
    raise AssertionError(request)


def check_openai_agents_offer_shells_and_patches(url: str, _: str) -> None:
    """The SDK's tools are offered, and a conversation with their calls and results is continued."""
    model = agent_models(url)[1]
    tools: list[Any] = [ShellTool(executor=no_shell), ApplyPatchTool(editor=NoEditor()), LocalShellTool(no_shell)]
    agent = Agent(
        name="files",
        model=model,
        tools=tools,
        model_settings=ModelSettings(temperature=0, max_tokens=60, tool_choice="none"),
    )
    outcome = {"type": "exit", "exit_code": 0}
    history: list[Any] = [
        {"role": "user", "content": "What is the capital of France?"},
        {"type": "shell_call", "call_id": "c0", "status": "completed", "action": {"commands": ["cat answer"]}},
        {
            "type": "shell_call_output",
            "call_id": "c0",
            "output": [{"stdout": "Paris", "stderr": "", "outcome": outcome}],
        },
        {
            "type": "apply_patch_call",
            "call_id": "c1",
            "status": "completed",
            "operation": {"type": "create_file", "path": "a", "diff": "+Paris"},
        },
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed", "output": "Created a"},
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": QUESTION},
    ]
    assert "Paris" in Runner.run_sync(agent, history).final_output
