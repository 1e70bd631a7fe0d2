"""The core of a generator: it converts commands to sequences, and compiles their constraints on other threads."""

from __future__ import annotations

import logging
import secrets
import time
from collections import abc

from service.engine.core.adapter_table import AdapterTable
from service.engine.core.batch import Int32s
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.cache_memory import CacheMemory
from service.engine.core.blocks.prefix_states import PrefixStates
from service.engine.core.blocks.state_pool import StatePool
from service.engine.core.compilation import MAX_COMPILE_S, Compilations, CompileConstraint
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import EngineCore, Runner
from service.engine.core.lookahead import ComputesAhead
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.core.snapshot.cache_snapshot import CacheSnapshot
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup
from service.engine.interface.config import EngineConfig, max_sequence_len
from service.engine.interface.messages import (
    Abort,
    Add,
    BeforeStep,
    Check,
    Command,
    Compile,
    Done,
    DropAdapter,
    Emit,
    LoadAdapter,
    Output,
    Report,
    StopCore,
    WatchCache,
)
from service.engine.tokens.tokenizer import Vocabulary
from service.generation.errors import AdapterRejected, EngineError, SequenceError
from service.generation.requests.request import GenerationRequest

_log = logging.getLogger(__name__)


class GeneratorCore:
    """A `loop.Core` that generates text. Only the engine's thread calls it."""

    def __init__(
        self,
        runner: Runner,
        tokenizer: Vocabulary,
        config: EngineConfig,
        *,
        eos_token_ids: abc.Collection[int],
        compile_constraint: CompileConstraint | None = None,
        max_compile_s: float = MAX_COMPILE_S,
        speculation: Speculation | None = None,
        adapters: AdapterTable | None = None,
        num_states: int = 0,
        state_bytes: int = 0,
        shares_blocks: bool = True,
        cache_groups: abc.Sequence[CacheGroup] = ONE_GROUP,
        cache_memory: CacheMemory | None = None,
        snapshot: CacheSnapshot | None = None,
        clock: abc.Callable[[], float] = time.monotonic,
    ) -> None:
        """Raise ValueError if `num_blocks` or `max_model_len` of `config` is None.

        `compile_constraint` is called on other threads, and may take `max_compile_s` of processor time for each
        constraint. It is None if no constraint can be compiled for the model. `speculation` requires a runner whose
        tokens do not depend on the rest of the batch. `num_states` is the number of slots for recurrent states, of
        `state_bytes` each; a model that has them needs at least `max_batch_sequences`. `shares_blocks` requires a
        runner whose whole state of a prefix is in its blocks and in a state that a step can keep. `adapters` is None
        for a runner without adapters. `cache_groups` are those of the runner's batches. `cache_memory` is the
        memory of the runner's cache, if it outlives this process; `snapshot` keeps cached prefixes while no core runs.
        """
        self._max_model_len = max_sequence_len(config, cache_groups)
        assert config.num_blocks is not None  # noqa: S101  max_sequence_len has checked it
        pool = BlockPool(
            config.num_blocks,
            config.tokens_per_block,
            groups=cache_groups,
            shares=shares_blocks,
            index=cache_memory.block_index if cache_memory else None,
        )
        states: PrefixStates | None = None
        if num_states:
            state_index = cache_memory.state_index if cache_memory else None
            states = PrefixStates(
                StatePool(num_states, config.max_batch_sequences, state_bytes, state_index),
                pool,
                caches=config.prefix_caching,
                splits=shares_blocks,
            )
        self._recorder = pool.recorder
        scheduler = Scheduler(config, pool, speculation, states)
        scheduler.lookahead.is_on = isinstance(runner, ComputesAhead) and runner.computes_ahead
        self._memory = scheduler.memory
        self._snapshot = snapshot
        if cache_memory is not None:
            self._memory.adopt(cache_memory.entries())
        if snapshot is not None and not self._memory.num_adopted_blocks:
            snapshot.load(self._memory)
        self._core = EngineCore(scheduler, runner, clock)
        self._tokenizer = tokenizer
        self._prefix_caching = config.prefix_caching
        self._output_interval_s = config.output_interval_s or 0.0
        self._eos_token_ids = frozenset(eos_token_ids)
        self._compilations = Compilations(compile_constraint, max_compile_s)
        self._adapters = adapters

    @property
    def has_work(self) -> bool:
        """True if any request is unfinished."""
        return self._core.has_work

    @property
    def output_interval_s(self) -> float:
        """The time in seconds for which the outputs of short steps may be collected into one report."""
        return self._output_interval_s

    def open(self, emit: Emit) -> None:
        """Set the receiver of reports about commands and compilations."""
        self._emit = emit
        self._compilations.open(emit)

    def watch_arrivals(self, arrivals: Int32s) -> None:
        """End steps of batches early while `arrivals[0]` is larger than `arrivals[1]`, if the runner can."""
        self._core.watch_arrivals(arrivals)

    def receive(self, command: Command) -> None:
        """Handle one command. A failure is reported under the command's serial."""
        match command:
            case Add():
                self._add(command)
            case Compile(serial, constraint, caller_id):
                self._compilations.begin(serial, constraint, caller_id)
            case Abort(serial):
                self._core.abort(serial)
                self._compilations.forget(serial)
            case Check(serial):
                self._check(serial)
            case LoadAdapter() | DropAdapter():
                self._change_adapters(command)
            case WatchCache(callers):
                if self._prefix_caching:
                    self._recorder.watch(callers)
            case StopCore():
                if self._snapshot is not None:
                    self._snapshot.save(self._memory)

    def step(self, before: BeforeStep | None = None) -> bool:
        """Run one step. Return True if its output should be flushed immediately."""
        return self._core.step(before)

    def report(self, *, only_urgent: bool = False) -> Report:
        """Return the output since the last report, or only urgent output, and the engine's state."""
        report = self._core.report(only_urgent=only_urgent)
        if self._recorder.is_on:
            report.cache_events = self._recorder.take()
        return report

    def close(self) -> None:
        """Stop compiling constraints."""
        self._compilations.close()

    def _add(self, command: Add) -> None:
        try:
            if not isinstance(command.request, GenerationRequest):
                raise TypeError(f"not a generation request: {type(command.request).__name__}")  # noqa: TRY301
            constraint = (
                None if command.constraint_serial is None else self._compilations.state(command.constraint_serial)
            )
            self._core.add(self._group(command, command.request, constraint))
        except Exception:  # noqa: BLE001  one request must not end the engine
            _log.exception("a request could not be added")
            self._emit(Report(errors=[(command.serial, SequenceError("the request could not be added"))]))

    def _group(self, command: Add, request: GenerationRequest, constraint: ConstraintState | None) -> SequenceGroup:
        seed = request.sampling.seed
        # Without prefix caching, each request has a cache salt of its own, which only its choices share.
        # Adapters are identified by their weights, because a name may belong to another adapter later.
        adapter = self._adapters.digest(request.adapter) if self._adapters else ""
        shared = f"shared {(request.cache_group, adapter, request.cache_salt)!r}"
        alone = f"alone {command.serial}"
        return SequenceGroup(
            request,
            self._tokenizer,
            serial=command.serial,
            seed=secrets.randbits(63) if seed is None else seed,
            arrived=command.arrived,
            eos_token_ids=self._eos_token_ids,
            max_model_len=self._max_model_len,
            cache_salt=shared if self._prefix_caching else alone,
            request_index=command.request_index,
            constraint=constraint,
        )

    def _change_adapters(self, command: LoadAdapter | DropAdapter) -> None:
        try:
            if self._adapters is None:
                raise AdapterRejected("the model accepts no adapters; engine.max_adapters is 0")  # noqa: TRY301
            if isinstance(command, LoadAdapter):
                done: Output = self._adapters.load(command.name, command.folder, command.digest)
            else:
                self._adapters.drop(command.name)
                done = Done()
        except EngineError as error:
            self._emit(Report(errors=[(command.serial, error)]))
        except Exception as error:  # noqa: BLE001  one adapter must not end the engine
            _log.exception("an adapter could not be loaded")
            self._emit(Report(errors=[(command.serial, AdapterRejected(f"it can't be loaded: {error}"))]))
        else:
            self._emit(Report(outputs=[(command.serial, done)]))

    def _check(self, serial: int) -> None:
        try:
            self._core.check()
        except RuntimeError as error:
            self._emit(Report(errors=[(serial, EngineError(str(error)))]))
        else:
            self._emit(Report(outputs=[(serial, Done())]))
