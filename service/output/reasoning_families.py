"""The model families whose reasoning is parsed, by their markers, and how a model's family is found."""

from __future__ import annotations

from dataclasses import dataclass

from service.generation.constraint import ReasoningMarkers
from service.output.tool_syntax import CHANNEL, END, MESSAGE, START


@dataclass(frozen=True, slots=True)
class ReasoningFamily:
    """Families that mark their reasoning alike. A chat template that writes all of `marks` is one of theirs."""

    families: str  # for readers of the docs
    markers: ReasoningMarkers
    marks: tuple[str, ...]


THINK = ReasoningMarkers("<think>", "</think>")
HARMONY_MARKERS = ReasoningMarkers(
    f"{CHANNEL}analysis{MESSAGE}",
    END,
    after_open="",
    after_close=f"{START}assistant",
    answer_open=f"{CHANNEL}final{MESSAGE}",
    always=True,
)
# In the order in which a template is tried: what another family's template has too comes later.
REASONING_FAMILIES = (
    ReasoningFamily("gpt-oss", HARMONY_MARKERS, (CHANNEL, MESSAGE)),
    ReasoningFamily(
        "Command A, R7B",
        ReasoningMarkers(
            "<|START_THINKING|>",
            "<|END_THINKING|>",
            after_open="",
            after_close="",
            answer_open="<|START_RESPONSE|>",
            answer_close="<|END_RESPONSE|>",
        ),
        ("<|START_THINKING|>", "<|START_RESPONSE|>"),
    ),
    ReasoningFamily(
        "Seed-OSS", ReasoningMarkers("<seed:think>", "</seed:think>", after_close="\n"), ("</seed:think>",)
    ),
    ReasoningFamily("Gemma 4", ReasoningMarkers("<|channel>thought", "<channel|>", after_close=""), ("<channel|>",)),
    ReasoningFamily(
        "Apertus",
        ReasoningMarkers("<|inner_prefix|>", "<|inner_suffix|>", after_open="", after_close=""),
        ("<|inner_suffix|>",),
    ),
    ReasoningFamily("Kimi-VL, Kimi-Dev", ReasoningMarkers("◁think▷", "◁/think▷"), ("◁/think▷",)),
    ReasoningFamily("Mistral: Magistral, Ministral 3", ReasoningMarkers("[THINK]", "[/THINK]", "", ""), ("[/THINK]",)),
    ReasoningFamily("EXAONE Deep", ReasoningMarkers("<thought>", "</thought>"), ("<thought>",)),
    ReasoningFamily(
        "Granite 3.2",
        ReasoningMarkers("Here is my thought process:", "Here is my response:"),
        ("Here is my response:",),
    ),
    ReasoningFamily(
        "Granite 3.3",
        ReasoningMarkers("<think>", "</think>", "", "", answer_open="<response>", answer_close="</response>"),
        ("</think>", "<response>"),
    ),
    ReasoningFamily(
        "Hunyuan",
        ReasoningMarkers("<think>", "</think>", answer_open="<answer>", answer_close="</answer>"),
        ("</think>", "<answer>"),
    ),
    ReasoningFamily(
        "Qwen3, QwQ, DeepSeek R1 and V3.1, GLM-4.5, MiniMax, OLMo 3, EXAONE 4, SmolLM3, Nemotron", THINK, ("</think>",)
    ),
)


def reasoning_markers(template: str) -> ReasoningMarkers | None:
    """The reasoning markers that a chat template's source writes; None if it writes none that are known."""
    for family in REASONING_FAMILIES:
        if all(mark in template for mark in family.marks):
            return family.markers
    return None
