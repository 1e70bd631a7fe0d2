"""Cores of engines that a test controls by files in a folder, on a thread or in a process.

Specifications for workers name them `tests.engine.scripted:generator` and `tests.engine.scripted:encoder`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import abc
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from service.engine.core.compilation import MAX_COMPILE_S
from service.engine.core.encoder_core import EncoderCore
from service.engine.core.engine_core import SampledToken
from service.engine.core.generator_core import GeneratorCore
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.step import Step
from service.engine.interface.messages import BeforeStep, Check, Command, Emit, Report
from service.engine.link.engine_spec import BuiltCore
from service.generation.errors import EngineError, ModelLoadError, SequenceError, UnsupportedConstraint
from service.generation.formats.constraint import Constraint
from service.generation.requests.embedding import TokenIds, Vector
from tests.engine.byte_tokenizer import END, ByteTokenizer
from tests.engine.fake_constraint import FakeConstraint
from tests.engine.fakes import config_of
from tests.engine.paged_runner import PagedRunner, say, sum_rule
from tests.engine.vectors import vector_of
from tests.waiting import GUARD_S


class Panic(BaseException):
    """An exception that is no Exception, as a library in another language may raise it."""


class Script:
    """The control files of a core: a test writes them, and the core reads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def close_gate(self) -> None:
        """Let no step begin until the gate is opened."""
        (self.folder / "at_gate").unlink(missing_ok=True)
        (self.folder / "closed").touch()

    def open_gate(self) -> None:
        """Let steps continue."""
        (self.folder / "num_steps").unlink(missing_ok=True)
        (self.folder / "closed").unlink(missing_ok=True)

    def is_at_gate(self) -> bool:
        """Return whether a step has waited at the gate since it was closed."""
        return (self.folder / "at_gate").exists()

    @contextmanager
    def paused(self) -> abc.Iterator[None]:
        """Let no step begin within the block."""
        self.close_gate()
        try:
            yield
        finally:
            self.open_gate()

    def stop_after(self, num_steps: int) -> None:
        """Close the gate after `num_steps` steps."""
        self._write("num_steps", str(num_steps))

    def fail(self, text: str, *, panics: bool = False) -> None:
        """Let the next step raise an exception."""
        self._write("panic" if panics else "fail", text)

    def stop_failing(self) -> None:
        """Let steps succeed again."""
        (self.folder / "fail").unlink(missing_ok=True)

    def fail_to_load(self, text: str) -> None:
        """Let the next load raise a ModelLoadError."""
        self._write("no_load", text)

    def load_again(self) -> None:
        """Let loads succeed again."""
        (self.folder / "no_load").unlink(missing_ok=True)

    def change(self, text: str) -> None:
        """Let the next load describe another model."""
        self._write("description", text)

    def description(self, usual: Any) -> Any:
        """Return the description of the core, by default `usual`."""
        path = self.folder / "description"
        return path.read_text() if path.exists() else usual

    def fail_sequence(self, serial: int, choice_index: int = 0) -> None:
        """Let a sequence end with a SequenceError."""
        self._write("failing_sequence", json.dumps([serial, choice_index]))

    def pause_compiling(self) -> None:
        """Let compilations wait until `resume_compiling`."""
        (self.folder / "slow").touch()

    def resume_compiling(self) -> None:
        """Let compilations continue."""
        (self.folder / "slow").unlink(missing_ok=True)

    def num_compiling(self) -> int:
        """Return the number of compilations that have started so far."""
        return len(list(self.folder.glob("compiling-*")))

    def steps(self) -> list[Any]:
        """Return, for each step, the serials of its sequences, or its inputs."""
        with suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.folder / "steps").read_text().splitlines()]
        return []

    def _write(self, name: str, text: str) -> None:
        """Write a file at once, so that the core never reads a part of it."""
        part = self.folder / f"{name}.part"
        part.write_text(text)
        part.replace(self.folder / name)

    # The methods below are called by the core.

    def begin_step(self, what: Any) -> None:
        """Wait at the gate, fail if the script demands it, and record the step."""
        limit = self._read("num_steps")
        if limit and len(self.steps()) >= int(limit):
            with suppress(FileNotFoundError):  # the gate was opened meanwhile
                (self.folder / "num_steps").rename(self.folder / "closed")
        self._wait_for("closed", note="at_gate")
        if text := self._read("fail"):
            raise MemoryError(text)
        if text := self._read("panic"):
            raise Panic(text)
        with (self.folder / "steps").open("a") as file:
            file.write(json.dumps(what) + "\n")

    def is_failing(self, serial: int, choice_index: int) -> bool:
        """Return whether the sequence must end with a SequenceError."""
        return bool(self._read("failing_sequence") == json.dumps([serial, choice_index]))

    def load(self) -> None:
        """Raise a ModelLoadError if the script demands it."""
        if text := self._read("no_load"):
            raise ModelLoadError(text)

    def compile(self, constraint: Constraint) -> ConstraintState:
        """Return the constraint of the grammar's text, which may be a way to fail, or the letters that are allowed."""
        assert constraint.grammar is not None
        (self.folder / f"compiling-{time.monotonic_ns()}").touch()
        if constraint.grammar.text != "computes":
            self._wait_for("slow")
        match constraint.grammar.text:
            case "breaks":
                raise RuntimeError("secret detail")
            case "computes":
                while (self.folder / "slow").exists():
                    sum(range(1000))
            case "rejected":
                raise UnsupportedConstraint(constraint.grammar.field, "it can't be enforced")
            case "kills":
                os.kill(os.getpid(), signal.SIGKILL)
        return Letters(constraint.grammar.text)

    def _read(self, name: str) -> str:
        with suppress(FileNotFoundError):
            return (self.folder / name).read_text()
        return ""

    def _wait_for(self, name: str, note: str = "waiting") -> None:
        """Wait while the file exists, and create the file `note` meanwhile."""
        deadline = time.monotonic() + GUARD_S
        while (self.folder / name).exists():
            (self.folder / note).touch()
            assert time.monotonic() < deadline
            time.sleep(0.001)


class Letters(FakeConstraint):
    """A constraint that allows a text of these letters, of any length."""

    def __init__(self, letters: str) -> None:
        self.letters = letters.encode()

    def accept(self, token_id: int) -> None:
        if token_id not in self.letters:
            raise ValueError("not one of the letters")

    def fork(self) -> Letters:
        return Letters(self.letters.decode())


class ScriptedRunner(PagedRunner):
    """A paged runner that is controlled by a script."""

    def __init__(self, script: Script, *args: Any) -> None:
        super().__init__(*args)
        self.script = script

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self.script.begin_step(sorted({item.sequence.group.serial for item in step.items}))
        for item in step.items:
            choice = item.sequence.group.serial, item.sequence.choice_index
            if self.script.is_failing(*choice):
                self.bad_sequences.add(choice)
        return super().run(step)


class StrictCore:
    """A generator core whose check also fails if its runner still keeps the state of a sequence."""

    def __init__(self, core: GeneratorCore, runner: PagedRunner) -> None:
        self.core = core
        self.runner = runner

    @property
    def has_work(self) -> bool:
        return self.core.has_work

    @property
    def output_interval_s(self) -> float:
        """The core's interval."""
        return self.core.output_interval_s

    def open(self, emit: Emit) -> None:
        self.emit = emit
        self.core.open(emit)

    def receive(self, command: Command) -> None:
        if isinstance(command, Check) and self.runner.kept and not self.has_work:
            self.emit(Report(errors=[(command.serial, EngineError("the runner keeps sequences"))]))
        else:
            self.core.receive(command)

    def step(self, before: BeforeStep | None = None) -> bool:
        return self.core.step(before)

    def report(self, *, only_urgent: bool = False) -> Report:
        return self.core.report(only_urgent=only_urgent)

    def close(self) -> None:
        self.core.close()


def generator(
    folder: Path,
    texts: abc.Sequence[str],
    *,
    ends: bool,
    sizes: abc.Mapping[str, Any],
    max_compile_s: float = MAX_COMPILE_S,
    clock: abc.Callable[[], float] = time.monotonic,
) -> BuiltCore:
    """Return a generator core. Choice i generates text i, or the tokens of `sum_rule` without texts."""
    script, config = Script(folder), config_of(**sizes)
    script.load()
    runner = ScriptedRunner(script, say(*texts, end=ends) if texts else sum_rule, config.block_size)
    core = GeneratorCore(
        runner,
        ByteTokenizer(),
        config,
        eos_token_ids=[END],
        compile_constraint=script.compile,
        max_compile_s=max_compile_s,
        clock=clock,
    )
    return BuiltCore(StrictCore(core, runner), script.description(config))


class ScriptedEncoder:
    """Computes `vector_of`, and is controlled by a script."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def run(self, inputs: abc.Sequence[TokenIds], second_starts: abc.Sequence[int] = ()) -> list[Vector]:
        self.script.begin_step([each.tolist() for each in inputs])
        return [np.array(vector_of(each), dtype=np.float32) for each in inputs]


def encoder(folder: Path, *, max_batch_tokens: int) -> BuiltCore:
    """Return an encoder core whose vectors can be computed by hand."""
    script = Script(folder)
    script.load()
    return BuiltCore(EncoderCore(ScriptedEncoder(script), max_batch_tokens), None)
