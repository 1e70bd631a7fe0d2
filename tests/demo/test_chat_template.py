"""The chat template: its text for every kind of conversation, and its agreement with the corpus."""

from itertools import islice
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from demo.corpus.conversation import segments
from demo.corpus.mixture import conversations
from demo.metrics import prompt_of

USER = {"role": "user", "content": "Hi"}
ASKED = "<|im_start|>user\nHi<|im_end|>\n"
RESULTS = ("<|im_start|>user\n<tool_response>\n7\n</tool_response>", "\n<tool_response>\n8\n</tool_response>")
NO_THOUGHT = "<think>\n\n</think>\n\n"
OPEN = "<|im_start|>assistant\n"
FUNCTION = {"name": "get_x", "parameters": {"type": "object", "properties": {}}}
FUNCTION_TEXT = '{"name": "get_x", "parameters": {"type": "object", "properties": {}}}'
TOOLS_TEXT = f"You can call these tools:\n<tools>\n{FUNCTION_TEXT}\n</tools>"
CALL_TEXT = '<tool_call>\n{"name": "get_x", "arguments": {"a": 1}}\n</tool_call>'


def tool_call(arguments: object) -> dict[str, Any]:
    """An assistant message that calls `get_x`."""
    call = {"id": "1", "type": "function", "function": {"name": "get_x", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


CASES: list[tuple[str, list[dict[str, Any]], dict[str, Any], str]] = [
    ("a user", [USER], {}, f"{ASKED}{OPEN}{NO_THOUGHT}"),
    ("no thinking", [USER], {"enable_thinking": False}, f"{ASKED}{OPEN}{NO_THOUGHT}"),
    ("thinking", [USER], {"enable_thinking": True}, f"{ASKED}{OPEN}"),
    (
        "parts",
        [{"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}],
        {},
        f"{ASKED}{OPEN}{NO_THOUGHT}",
    ),
    (
        "a system prompt",
        [{"role": "system", "content": "Be brief."}, USER],
        {},
        f"<|im_start|>system\nBe brief.<|im_end|>\n{ASKED}{OPEN}{NO_THOUGHT}",
    ),
    (
        "a developer's prompt",
        [{"role": "developer", "content": "Be brief."}, USER],
        {},
        f"<|im_start|>system\nBe brief.<|im_end|>\n{ASKED}{OPEN}{NO_THOUGHT}",
    ),
    (
        "tools",
        [USER],
        {"tools": [{"type": "function", "function": FUNCTION}]},
        f"<|im_start|>system\n{TOOLS_TEXT}<|im_end|>\n{ASKED}{OPEN}{NO_THOUGHT}",
    ),
    (
        "flat tools under a system prompt",
        [{"role": "system", "content": "Be brief."}, USER],
        {"tools": [FUNCTION]},
        f"<|im_start|>system\nBe brief.\n\n{TOOLS_TEXT}<|im_end|>\n{ASKED}{OPEN}{NO_THOUGHT}",
    ),
    *(
        (
            f"a call with arguments as {type(arguments).__name__}, and its results",
            [USER, tool_call(arguments), {"role": "tool", "content": "7"}, {"role": "tool", "content": "8"}],
            {},
            f"{ASKED}{OPEN}{CALL_TEXT}<|im_end|>\n{RESULTS[0]}{RESULTS[1]}<|im_end|>\n{OPEN}{NO_THOUGHT}",
        )
        for arguments in ('{"a": 1}', {"a": 1})
    ),
    (
        "earlier reasoning",
        [USER, {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}, USER],
        {},
        f"{ASKED}{OPEN}Yes.<|im_end|>\n{ASKED}{OPEN}{NO_THOUGHT}",
    ),
    (
        "earlier reasoning inside the content",
        [USER, {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nYes."}, USER],
        {},
        f"{ASKED}{OPEN}Yes.<|im_end|>\n{ASKED}{OPEN}{NO_THOUGHT}",
    ),
    (
        "reasoning before a call that is being answered",
        [USER, {**tool_call('{"a": 1}'), "reasoning_content": "Hm."}, {"role": "tool", "content": "7"}],
        {"enable_thinking": True},
        f"{ASKED}{OPEN}<think>\nHm.\n</think>\n\n{CALL_TEXT}<|im_end|>\n{RESULTS[0]}<|im_end|>\n{OPEN}",
    ),
]


@pytest.mark.parametrize(("messages", "options", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_template_writes_the_prompt(
    auto_tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], options: dict[str, Any], expected: str
) -> None:
    """Each kind of conversation has exactly this prompt."""
    prompt = auto_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)
    assert prompt == expected


def test_template_agrees_with_the_corpus(auto_tokenizer: PreTrainedTokenizerBase) -> None:
    """What the model was trained on is what a server writes, prompt and whole conversation."""
    drawn = (conversation for conversation in conversations(11) if not conversation.raw)
    for conversation in islice(drawn, 400):
        hidden = () if conversation.thinking else ("reasoning_content",)
        messages = [{key: m[key] for key in m if key not in hidden} for m in conversation.messages]
        tools: list[Any] | None = list(conversation.tools) or None
        whole = auto_tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        assert whole == "".join(text for text, _ in segments(conversation))
        if not conversation.masked:
            prompt = auto_tokenizer.apply_chat_template(
                messages[:-1],
                tools=tools,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=conversation.thinking,
            )
            assert prompt == prompt_of(conversation)
