"""EleutherAI's evaluation harness: its scores with this server equal those of its transformers backend."""

import os
import sys
import tempfile
from pathlib import Path

sys.path[:] = [each for each in sys.path if Path(each) != Path(__file__).parent]  # this file has the package's name
os.environ |= {"HF_HOME": tempfile.mkdtemp(), "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "unused"}

import functools  # noqa: E402
import json  # noqa: E402
from typing import Any  # noqa: E402

import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

MODEL = str(Path(__file__).parents[4] / "demo" / "model")
FACTS = [
    {"country": "France", "choices": ["Paris", "Oslo", "a cat"], "answer": 0},
    {"country": "Norway", "choices": ["Paris", "Oslo", "a cat"], "answer": 1},
    {"country": "Italy", "choices": ["Bern", "Rome", "a cat, two dogs and a house"], "answer": 1},
]
TASKS: dict[str, dict[str, Any]] = {
    "choose": {
        "output_type": "multiple_choice",
        "doc_to_text": "The capital of {{country}} is",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}",
        "target_delimiter": " ",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    },
    "read": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "The capital of {{country}} is {{choices[answer]}}. It is a large city.",
        "metric_list": [{"metric": "word_perplexity"}],
    },
    "ask": {
        "output_type": "generate_until",
        "doc_to_text": "What is the capital of {{country}}?",
        "doc_to_target": "The capital of {{country}} is {{choices[answer]}}.",
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 30, "temperature": 0.0},
        "metric_list": [{"metric": "exact_match"}],
    },
}


@functools.cache
def tasks() -> TaskManager:
    """The tasks above, read from files as the harness reads its own."""
    folder = Path(tempfile.mkdtemp())
    facts = folder / "facts.json"
    facts.write_text("\n".join(map(json.dumps, FACTS)))
    for name, task in TASKS.items():
        data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(facts)}}, "test_split": "test"}
        (folder / f"{name}.yaml").write_text(json.dumps({"task": name, **data, **task}))  # JSON is YAML
    return TaskManager(include_path=str(folder), include_defaults=False)


def evaluated(kind: str, names: list[str], *, chat: bool = False, **options: Any) -> tuple[Any, Any]:
    """Return scores by task, and the results of each task's requests: log-likelihoods, or texts."""
    evaluated_tasks: Any = lm_eval.simple_evaluate(
        kind, model_args=options, tasks=names, task_manager=tasks(), bootstrap_iters=0, apply_chat_template=chat
    )
    numbers = {
        name: {metric: value for metric, value in evaluated_tasks["results"][name].items() if isinstance(value, float)}
        for name in names
    }
    return numbers, {name: [each["resps"] for each in evaluated_tasks["samples"][name]] for name in names}


@functools.cache
def expected(*names: str, chat: bool = False) -> tuple[Any, Any]:
    """Return the results of the harness' transformers backend."""
    return evaluated("hf", list(names), chat=chat, pretrained=MODEL, device="cpu", dtype="float32")


def same(got: Any, wanted: Any) -> None:
    """Return True if numbers are equal within 1e-3, or within a thousandth of a perplexity, and all else is equal."""
    if isinstance(wanted, float):
        assert abs(got - wanted) <= 1e-3 * max(1, abs(wanted) / 100), (got, wanted)
    elif isinstance(wanted, list | tuple | dict):
        assert len(got) == len(wanted)
        for key in wanted if isinstance(wanted, dict) else range(len(wanted)):
            same(got[key], wanted[key])
    else:
        assert got == wanted


def check_completion_scores_equal_the_transformers_backends(url: str, _: str) -> None:
    """Choices, texts and generated answers are scored equally, with token ids and with strings."""
    base: dict[str, Any] = {"model": "sluice-demo", "base_url": f"{url}/v1/completions", "tokenizer": MODEL}
    base["tokenizer_backend"] = "huggingface"
    for by_ids in (True, False):
        got = evaluated("local-completions", list(TASKS), tokenized_requests=by_ids, **base)
        same(got, expected(*TASKS))


def check_chat_scores_equal_the_transformers_backends(url: str, _: str) -> None:
    """Answers with the chat template are scored equally."""
    base: dict[str, Any] = {"model": "sluice-demo", "base_url": f"{url}/v1/chat/completions"}
    same(evaluated("local-chat-completions", ["ask"], chat=True, **base), expected("ask", chat=True))
