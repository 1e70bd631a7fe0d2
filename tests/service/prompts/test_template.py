"""Chat templates: rendering, and the errors that they raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.generation.errors import ModelLoadError, TemplateRejected
from service.prompts.templates.template import ChatTemplate, NoChatTemplate
from tests.engine.constraints.fakes import tokenizer_of
from tests.service.prompts.fakes import DEMO, template_of

TOKENIZER = tokenizer_of()
HELLO = [{"role": "user", "content": "hello"}]


def test_messages_tools_and_variables_reach_the_template() -> None:
    """Messages, tools and variables reach the template, and the prompt ends where the answer begins."""
    source = "{{ messages[0].content }}|{{ tools[0].function.name }}|{{ enable_thinking }}|{{ add_generation_prompt }}"
    template = template_of(source)
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert template.render(HELLO, tools, {"enable_thinking": False}) == "hello|f|False|True"


def test_variables_read_by_the_template_are_found() -> None:
    """A template's switches are found, also with transformers' own tag."""
    source = (
        "{% set a = 1 %}{% for m in messages %}{% generation %}{{ m.thinking }}{% endgeneration %}{% endfor %}{{ b }}"
    )
    assert template_of(source).variables == {"messages", "b"}


def test_error_has_the_templates_message() -> None:
    """The message that a template raises is returned to the client."""
    template = template_of("{{ raise_exception('After the optional system message, roles must alternate') }}")
    with pytest.raises(TemplateRejected, match="roles must alternate") as caught:
        template.render(HELLO, None, {})
    assert caught.value.field == "messages"


@pytest.mark.parametrize("source", ["{{ messages[9].content.x }}", "{{ 1 + messages }}", "{{ 1 / 0 }}"])
def test_failing_template_is_an_invalid_request(source: str) -> None:
    """A template that fails on a conversation fails that request only."""
    with pytest.raises(TemplateRejected):
        template_of(source).render(HELLO, None, {})


def test_folder_without_template_is_not_loaded(tmp_path: Path) -> None:
    """A model without a template is distinguished from an unreadable folder; both errors contain the folder's name."""
    (tmp_path / "tokenizer.json").write_text(TOKENIZER.json)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    with pytest.raises(NoChatTemplate, match=f"{tmp_path}: .* no chat template"):
        ChatTemplate.from_folder(tmp_path)
    with pytest.raises(ModelLoadError, match="none") as caught:
        ChatTemplate.from_folder(tmp_path / "none")
    assert not isinstance(caught.value, NoChatTemplate)


def test_broken_template_is_not_loaded() -> None:
    """An invalid template is reported at the start."""
    with pytest.raises(ModelLoadError, match="can't be read"):
        template_of("{% for %}")


def test_bundled_models_template_is_loaded_from_its_folder() -> None:
    """The folder's own template renders a chat."""
    template = ChatTemplate.from_folder(DEMO)
    assert "enable_thinking" in template.variables
    assert template.render(HELLO, None, {"enable_thinking": True}).endswith("hello<|im_end|>\n<|im_start|>assistant\n")
