"""Measure the demo model on unseen cases and print the table of the model card.

`python -m demo.evaluate` runs 200 cases per skill with greedy decoding. Names, numbers, tool names and phrasings are
from the held-out side of the corpus. An answer is correct if it equals the expected one; calls and JSON are correct if
their parsed values do. `--failures 3` shows some incorrect answers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm  # type: ignore[import-untyped]
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from demo.corpus import arithmetic, chat, completion, facts, memory, persona, strings, structured, tools
from demo.corpus.conversation import Conversation, segments
from demo.corpus.draw import Draw
from demo.metrics import METRICS, Metric, prompt_of

MODEL = Path(__file__).parent / "model"
BATCH = 100
SPARE_TOKENS = 12
"""Tokens by which an answer may be longer than the longest expected one. A longer answer is wrong anyway."""


@dataclass(frozen=True)
class Skill:
    """One family of cases, with its metrics and their targets."""

    name: str
    case: Callable[[Draw], Conversation]
    metrics: tuple[tuple[Metric, float | None], ...] = (("exact", None),)
    thinking: bool = False


def exact(target: float) -> tuple[tuple[Metric, float | None], ...]:
    """Return the metric of equality, with a target."""
    return (("exact", target),)


def second_turn(draw: Draw) -> Conversation:
    """Return a second turn of small talk; there are too few different first turns for 200 cases."""
    return chat.small_talk(draw).then(chat.small_talk(draw))


SKILLS = (
    Skill("small talk", chat.small_talk, exact(0.9)),
    Skill("small talk, second turn", second_turn, exact(0.9)),
    Skill("refusals", chat.refusal, exact(0.95)),
    Skill("facts", facts.fact, exact(0.9)),
    Skill("facts, thinking", facts.fact, thinking=True),
    Skill("memory", memory.recall, exact(0.9)),
    Skill("memory over a long chat", memory.long_recall),
    Skill("persona: upper case", persona.upper, exact(0.9)),
    Skill("persona: one word", persona.one_word, exact(0.9)),
    Skill("persona: pirate", persona.pirate, exact(0.9)),
    Skill("persona: given word", persona.decorated, exact(0.9)),
    Skill("persona: given name", persona.named, exact(0.9)),
    Skill("one-digit sums", arithmetic.one_digit, exact(0.9)),
    Skill("two-digit sums", arithmetic.two_digits),
    Skill("two-digit sums, thinking", arithmetic.two_digits, thinking=True),
    Skill("sums in a story", arithmetic.story),
    Skill("echo", strings.echo, exact(0.9)),
    Skill("repeat several times", strings.several, exact(0.9)),
    Skill("first or last word", strings.pick),
    Skill("JSON", structured.json_object, (("parseable", 0.97), ("values", None))),
    Skill("JSON value, not requested", structured.unasked, (("begins", None),)),
    Skill("tool calls", tools.tool_call, (("parseable", 0.97), ("names", 0.9), ("arguments", 0.9))),
    Skill("tool calls, thinking", tools.tool_call, (("names", None), ("arguments", None)), thinking=True),
    Skill("no tool needed", tools.no_tool),
    Skill("answer from a tool's result", tools.tool_result),
    Skill("plain completion: facts", completion.sentence),
    Skill("plain completion: counting", completion.counting),
    Skill("plain completion: repeated list", completion.listing),
)


@dataclass(frozen=True)
class Model:
    """The weights and the tokenizer of one folder."""

    network: Any  # a transformers model: its generate is not typed
    tokenizer: PreTrainedTokenizerBase

    @classmethod
    def load(cls, folder: Path) -> Model:
        """Load a model for inference in float32. Exit with a message if the weights are missing."""
        if not (folder / "model.safetensors").is_file():
            sys.exit(f"{folder / 'model.safetensors'} is missing; run python -m demo.train")
        network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        return cls(network.eval(), AutoTokenizer.from_pretrained(folder))

    def answers(self, prompts: list[str], max_new_tokens: int = 64) -> list[str]:
        """Return greedy continuations without control tokens. Prompts of similar length share a batch."""
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        found: dict[int, str] = {}
        for start in range(0, len(order), BATCH):
            indices = order[start : start + BATCH]
            batch = [prompts[i] for i in indices]
            inputs = self.tokenizer(
                batch, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False
            )
            with torch.inference_mode():
                out = self.network.generate(
                    **inputs, max_new_tokens=max_new_tokens, do_sample=False, temperature=None, top_p=None
                )
            texts = self.tokenizer.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            found.update(zip(indices, texts, strict=True))
        return [found[i] for i in range(len(prompts))]


def cases(skill: Skill, count: int, seed: int) -> list[Conversation]:
    """Return different held-out cases of a skill, fewer than `count` only if it has no more."""
    draw = Draw(seed, held_out=True)
    found: dict[str, Conversation] = {}
    for _ in range(20 * count):
        case = replace(skill.case(draw), thinking=skill.thinking)
        found.setdefault(prompt_of(case), case)
        if len(found) == count:
            break
    return list(found.values())


@dataclass(frozen=True)
class Result:
    """The result of one skill by one metric."""

    skill: str
    metric: Metric
    num_cases: int
    share: float
    target: float | None

    def row(self) -> str:
        """Return the row of the Markdown table."""
        met = "" if self.target is None else ("yes" if self.share >= self.target else "**no**")
        target = "" if self.target is None else f"{self.target:.2f}"
        return f"| {self.skill} | {self.metric} | {self.num_cases} | {self.share:.3f} | {target} | {met} |"


def evaluate(model: Model, skill: Skill, count: int, seed: int, num_failures: int) -> Iterator[Result]:
    """Yield the results of one skill, and print up to `num_failures` failed cases on stderr."""
    found = cases(skill, count, seed)
    prompts = [prompt_of(case) for case in found]
    wholes = ["".join(text for text, _ in segments(case)) for case in found]
    endings = [whole[len(prompt) :] for whole, prompt in zip(wholes, prompts, strict=True)]
    longest = max(len(model.tokenizer(ending)["input_ids"]) for ending in endings)
    answers = model.answers(prompts, longest + SPARE_TOKENS)
    for metric, target in skill.metrics:
        passed = [METRICS[metric](case, answer) for case, answer in zip(found, answers, strict=True)]
        failed = [pair for pair, ok in zip(zip(found, answers, strict=True), passed, strict=True) if not ok]
        for case, answer in failed[:num_failures]:
            print(f"--- {skill.name}, {metric}\n{prompt_of(case)}>>>{answer}<<<", file=sys.stderr)
        yield Result(skill.name, metric, len(found), sum(passed) / len(found), target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--cases", type=int, default=200, help="number of cases per skill")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--skill", default="", help="only skills whose name contains this")
    parser.add_argument("--failures", type=int, default=0, help="number of failed cases per skill to print on stderr")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = Model.load(options.model)
    print("| skill | metric | cases | held-out share | target | met |\n|---|---|---|---|---|---|")
    for skill in tqdm([s for s in SKILLS if options.skill in s.name], disable=not sys.stderr.isatty()):
        for result in evaluate(model, skill, options.cases, options.seed, options.failures):
            tqdm.write(result.row())
            sys.stdout.flush()


if __name__ == "__main__":
    main()
