"""A folder's template renders the same text as with transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

from service.generation.errors import ModelLoadError
from service.prompts.templates.template import ChatTemplate, NoChatTemplate
from tests.engine.constraints.fakes import tokenizer_of
from tests.service.prompts.fakes import CHATML, DEMO

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "<b>Grüße</b> & 'quotes' 🙂"},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": "ä<"}}}]},
    {"role": "user", "content": "again"},
]
TOOLS: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": ["<", "é"]}}}]
END = {"__type": "AddedToken", "content": "</s>", "lstrip": False, "normalized": False, "rstrip": False}
TOKENS = """{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ unk_token is defined }}|{{ tools is none }}"""
BLOCKS = """
{%- for message in messages %}
    {% if message.role == 'system' %}
        {% continue %}
    {%- endif %}
    {% generation %}
  {{ message.content | trim }}
    {%- endgeneration %}
    {{ message | tojson(indent=2) }}
    {% set seen = loop.index %}
{% endfor %}
{{ seen is defined }}
"""
CONFIGS: dict[str, dict[str, Any]] = {
    "one": {"chat_template": CHATML},
    "tokens": {"chat_template": TOKENS, "bos_token": "<s>", "eos_token": END, "pad_token": None},
    "blocks": {"chat_template": BLOCKS},
    "two": {
        "chat_template": [
            {"name": "default", "template": "plain {{ tools }}"},
            {"name": "tool_use", "template": "tools {{ tools | tojson }}"},
        ]
    },
}


def write(folder: Path, config: dict[str, Any], **files: str) -> Path:
    (folder / "tokenizer.json").write_text(tokenizer_of().json)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **config}))
    for name, text in files.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(exist_ok=True)
        file.with_suffix(".jinja").write_text(text)
    return folder


def assert_same(folder: Path, **variables: Any) -> None:
    template = ChatTemplate.from_folder(folder)
    theirs: Any = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    for tools in (None, TOOLS):
        expected = theirs.apply_chat_template(
            MESSAGES, tools=tools, tokenize=False, add_generation_prompt=True, **variables
        )
        assert template.render(MESSAGES, tools, variables) == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_template_is_read_from_the_tokenizer_configuration(name: str, tmp_path: Path) -> None:
    """One or several templates have the special tokens, white space rules and filters that they rely on."""
    assert_same(write(tmp_path, CONFIGS[name]))


def test_template_files_take_precedence_over_the_configuration(tmp_path: Path) -> None:
    """Template files take precedence over the configuration."""
    assert_same(write(tmp_path, CONFIGS["one"], chat_template="a file {{ tools | tojson }}"))
    assert_same(write(tmp_path, CONFIGS["one"], additional_chat_templates__tool_use="used {{ tools | tojson }}"))


def test_bundled_template() -> None:
    """The bundled template renders the same with and without its switch."""
    assert_same(DEMO)
    assert_same(DEMO, enable_thinking=True)


def test_invalid_template_files_are_rejected(tmp_path: Path) -> None:
    """Several templates without a default, and files of another kind, are rejected."""
    named = {"chat_template": [{"name": "rag", "template": "x"}]}
    with pytest.raises(ModelLoadError, match="none of the chat templates rag is named default"):
        ChatTemplate.from_folder(write(tmp_path, named))
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(ModelLoadError, match=r"tokenizer_config\.json is not a JSON object") as caught:
        ChatTemplate.from_folder(tmp_path)
    assert not isinstance(caught.value, NoChatTemplate)
