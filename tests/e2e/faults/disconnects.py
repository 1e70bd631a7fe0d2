"""Waits and checks around a client's disconnect: what is generated afterwards, and that everything is released."""

import time
from collections.abc import Callable
from typing import Any

import grpc
from sluice.v1 import chat_pb2, chat_pb2_grpc, sampling_pb2

from tests.e2e.stack import Stack
from tests.service.contract.fakes import user
from tests.waiting import GUARD_S, wait_until

MODEL = "sluice-demo"
MAX_TOKENS_LEFT = 500  # per choice, before and after the abort; without it each generates more than both


def num_tokens(stack: Stack) -> float:
    """Return the number of tokens that the service has generated."""
    return stack.metric("sluice_engine_generated_tokens_total")


def until_generating(stack: Stack, before: float) -> None:
    """Return when more tokens than `before` are generated."""
    wait_until(lambda: num_tokens(stack) != before, lambda: "the request never ran")


def until_call_ended(stack: Stack, num_before: int) -> None:
    """Return when the service has logged the end of more than `num_before` generating calls."""
    wait_until(lambda: len(stack.generation_lines()) > num_before)


def until_idle_after_hold(stack: Stack) -> None:
    """Return when the engine has handled all commands sent while it was held, and is idle.

    Its metrics are old until then; commands are handled in order, so a request that this function sends is handled
    after them.
    """
    short = chat_pb2.ChatRequest(model=MODEL, messages=[user("Hello!")], stopping=sampling_pb2.StopParams(max_tokens=1))
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['service']}") as channel:
        chat_pb2_grpc.ChatServiceStub(channel).Chat(short, timeout=GUARD_S)
    stack.until_idle()


def check_left_before(stack: Stack, leave: Callable[[float], None], status: str = "CANCELLED") -> None:
    """Check that a request that its client leaves before the first token frees everything.

    The engine is held meanwhile. `leave` sends the request and leaves it after a number of seconds; as long as the
    request has not reached the service by then, it is sent again and left later.
    """
    stack.until_idle()
    before, num_ended, patience_s = num_tokens(stack), len(stack.generation_lines()), 0.02
    with stack.engine_held():
        while len(stack.generation_lines()) == num_ended:
            patience_s *= 2
            leave(patience_s)
            time.sleep(patience_s)
        assert status in stack.generation_lines()[-1]
    until_idle_after_hold(stack)
    assert num_tokens(stack) - before < MAX_TOKENS_LEFT, "it continued without its client"


def check_left_after(stack: Stack, num_choices: int, start: Callable[[float], Callable[[], object]]) -> None:
    """Check that a request that its client leaves after the first token stops and frees everything.

    `start` gets the number of tokens before it, returns when tokens are generated, and returns a function that leaves
    the request. The engine is held until the service has ended the call, so it cannot end by itself in the meantime;
    one that was nearly finished before that proves nothing and is sent again.
    """
    is_proven = False
    while not is_proven:
        stack.until_idle()
        before, num_ended = num_tokens(stack), len(stack.generation_lines())
        leave = start(before)
        with stack.engine_held():
            leave()
            until_call_ended(stack, num_ended)
            at_end = num_tokens(stack)
            is_proven = at_end - before < num_choices * MAX_TOKENS_LEFT
            assert not is_proven or '"status":"CANCELLED"' in stack.generation_lines()[-1]
        until_idle_after_hold(stack)
    assert num_tokens(stack) - at_end < num_choices * MAX_TOKENS_LEFT, "it continued without its client"


def num_choices(request: Any) -> int:
    """Return the number of choices of a request of any method."""
    return max(getattr(request, "n", 1), 1) * max(len(getattr(request, "prompts", ())), 1)
