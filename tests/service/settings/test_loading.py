"""The settings of a model apply to the served model."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.generation.errors import ModelLoadError, UnsupportedTask
from service.generation.prompts.conversation import (
    Conversation,
    Function,
    Message,
    Role,
    TextPart,
    ToolChoice,
    ToolMode,
)
from service.generation.requests.answer_request import AnswerRequest
from service.generation.stats import EngineStats
from service.loading.model import load_model
from service.registry.description import Task
from service.registry.models import ServedGenerator
from service.settings.bundled_models import DEMO_FOLDER
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ChatSettings, ModelSettings

ORDER = "Answer in upper case."


class IgnoringObserver:
    """A step observer that ignores all steps."""

    def on_step(self, stats: EngineStats) -> None:
        """Ignore the step."""


def settings_of(folder: Path, **settings: Any) -> ModelSettings:
    """Return settings with every value filled in."""
    engine = EngineSettings(num_blocks=64, worker="thread")  # which needs no end token, since it has no start token
    return ModelSettings(
        name="demo", path=str(folder), dtype="auto", device="cpu", cache_share=1, engine=engine, **settings
    )


def loaded(chat: ChatSettings, folder: Path = DEMO_FOLDER) -> ServedGenerator:
    model = load_model(settings_of(folder, chat=chat), IgnoringObserver())
    assert isinstance(model, ServedGenerator)
    return model


def chat_of(*messages: Message, **fields: Any) -> AnswerRequest:
    return AnswerRequest("demo", (Conversation(messages, **fields),), "messages")


def message_of(role: Role, text: str) -> Message:
    return Message(role, (TextPart(text),))


async def prompt_length(model: ServedGenerator, *messages: Message) -> int:
    prepared = await model.preparation.prepare(chat_of(*messages), "1")
    return len(prepared.requests[0].prompt_token_ids)


async def test_configured_system_prompt_applies_without_the_clients_own() -> None:
    """The configured system prompt is the first message of a chat without one; a client's own replaces it."""
    question = message_of(Role.USER, "Hello!")
    model, plain = loaded(ChatSettings(system_prompt=ORDER)), loaded(ChatSettings())
    bare = await prompt_length(plain, question)
    with_prompt = await prompt_length(plain, message_of(Role.SYSTEM, ORDER), question)
    assert await prompt_length(model, question) == with_prompt > bare
    other = message_of(Role.SYSTEM, "Answer.")
    assert await prompt_length(model, other, question) == await prompt_length(plain, other, question) < with_prompt


def test_model_without_an_end_of_text_is_rejected(tmp_path: Path) -> None:
    """A chat with such a model would never end; the error names the files in which the token is expected."""
    folder = tmp_path / "endless"
    shutil.copytree(DEMO_FOLDER, folder)
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": None}))
    with pytest.raises(ModelLoadError, match=r"endless: neither .* has an eos_token_id"):
        loaded(ChatSettings(), folder)


def test_description_has_version_and_tasks() -> None:
    """The version is that of the settings; a model with a chat template supports chat and completion."""
    description = load_model(settings_of(DEMO_FOLDER, version="2024-05"), IgnoringObserver()).description
    assert (description.name, description.version) == ("demo", "2024-05")
    assert list(description.tasks) == [Task.CHAT, Task.COMPLETION]
    assert description.supports_tools
    assert description.supports_reasoning


async def test_model_without_a_chat_template_completes_only(tmp_path: Path) -> None:
    """A model without a chat template is loaded; a chat with it is rejected on the field `model`."""
    folder = tmp_path / "plain"
    shutil.copytree(DEMO_FOLDER, folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    model = loaded(ChatSettings(), folder)
    assert list(model.description.tasks) == [Task.COMPLETION]
    assert not model.description.supports_tools
    with pytest.raises(UnsupportedTask, match="'demo' has no chat template") as caught:
        await prompt_length(model, message_of(Role.USER, "Hello!"))
    assert caught.value.field == "model"


async def test_tool_syntax_of_the_settings_is_enforced() -> None:
    """A required call begins with the configured syntax."""
    choice = ToolChoice(ToolMode.REQUIRED, "look")
    request = chat_of(message_of(Role.USER, "Hello!"), tools=(Function("look"),), tool_choice=choice)
    grammars = {}
    for chat in (ChatSettings(tool_syntax="hermes"), ChatSettings(tool_syntax="json")):
        prepared = await loaded(chat).preparation.prepare(request, "1")
        constraint = prepared.requests[0].constraint
        assert constraint is not None
        assert constraint.grammar is not None
        grammars[chat.tool_syntax] = constraint.grammar.text
    assert "\nopening: <[" in "\n" + grammars["hermes"]  # one token
    assert '\nopening: ""' in "\n" + grammars["json"]


@pytest.mark.slow
def test_the_service_reads_a_models_files_without_torch() -> None:
    """Importing torch would take seconds at the start, and hundreds of megabytes on top of the engines' processes."""
    program = (
        "import sys, service.loading.model as loading\n"
        "loading.FastTokenizer.from_folder(loading.Path(sys.argv[1]))\n"
        "template = loading.ChatTemplate.from_folder(loading.Path(sys.argv[1]))\n"
        "template.render([{'role': 'user', 'content': 'x'}], None, {})\n"
        "print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(DEMO_FOLDER)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
