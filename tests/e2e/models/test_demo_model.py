"""The bundled model generates the same text in the whole product as in plain transformers."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from demo.evaluate import MODEL, SKILLS, cases
from tests.e2e.stack import GENERATOR, Stack
from tests.waiting import GUARD_S

NUM_PROMPTS = 50
SKILL_NAMES = ("small talk", "facts", "memory", "persona: upper case", "echo")


@pytest.fixture(scope="module")
def float32_stack() -> Iterator[Stack]:
    """The product on the native backend in float32.

    In bfloat16, which some CPUs use, the order of sums changes results.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_SERVICE_DTYPE", "float32")
        patch.setenv("SLUICE_SERVICE_ENGINE__BACKEND", "native")
        stack = Stack(GENERATOR)
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


def held_out_chats() -> list[list[dict[str, Any]]]:
    """Return the messages before the answer, of cases outside the training data."""
    skills = [skill for skill in SKILLS if skill.name in SKILL_NAMES]
    chats = [case.messages[:-1] for skill in skills for case in cases(skill, NUM_PROMPTS // len(skills), 2026)]
    assert len(chats) == NUM_PROMPTS
    return [[dict(message) for message in chat] for chat in chats]


def test_greedy_texts_equal_those_of_transformers(float32_stack: Stack) -> None:
    """Greedy answers of 50 held-out chats over REST through Envoy equal those of `from_pretrained`."""
    torch.set_num_threads(1)
    tokenizer: Any = AutoTokenizer.from_pretrained(MODEL)
    network: Any = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    with httpx.Client(base_url=float32_stack.url, timeout=GUARD_S) as client:
        for messages in held_out_chats():
            inputs = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            out = network.generate(**inputs, do_sample=False, max_new_tokens=48)
            expected = tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            body = {"model": "sluice-demo", "messages": messages, "temperature": 0, "max_tokens": 48}
            answer = client.post("/v1/chat/completions", json=body).json()
            assert answer["choices"][0]["message"]["content"] == expected
