"""The reasoning markers of model families, and the detection of a model's family by its chat template."""

from __future__ import annotations

from dataclasses import dataclass

from service.generation.formats.constraint import ReasoningMarkers
from service.output.families.tool_syntax import CHANNEL, END, MESSAGE, START


@dataclass(frozen=True, slots=True)
class ReasoningFamily:
    """Families with the same reasoning markers. A chat template that contains all of `marks` belongs to them."""

    families: str  # shown in the docs
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
# In the order of detection: marks that also occur in another family's templates come later.
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
    """Return the reasoning markers in a chat template's source; None if it has no known ones."""
    for family in REASONING_FAMILIES:
        if all(mark in template for mark in family.marks):
            return family.markers
    return None
