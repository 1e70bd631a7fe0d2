"""Fields of a chat with values that are too large, too many or out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.attacks.target import Target, handled, rejected
from conformance.claim import Claim, claims_into

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
CWE = "CWE-1284"
WRONG_OPTIONS: tuple[Any, ...] = ("a", 1, [], {"include_usage": "a"})


def _fields(*bodies: dict[str, Any], judge: Callable[..., str] = handled) -> Callable[[Target], str]:
    return lambda target: ", ".join(judge(target.user("Hello", **fields)) for fields in bodies)


def _tools(count: int, name: str = "f") -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    return [
        {"type": "function", "function": {"name": f"{name}{each}", "parameters": parameters}} for each in range(count)
    ]


Case = tuple[str, str, list[dict[str, Any]]]
REJECTED: tuple[Case, ...] = (
    ("n", "A billion answers to one question are rejected", [{"n": 10**9}]),
    ("n_overflow", "A number of answers beyond 64 bits is rejected", [{"n": 2**64}, {"n": -(2**63)}]),
    ("top_logprobs", "A billion alternatives of each token are rejected", [{"logprobs": True, "top_logprobs": 10**9}]),
    ("temperature", "A temperature beyond any use is rejected", [{"temperature": 1e308}, {"temperature": -0.001}]),
    (
        "penalties",
        "Penalties beyond the documented range are rejected",
        [{"presence_penalty": 1e30}, {"frequency_penalty": -1e30}],
    ),
    (
        "bias_token",
        "A bias of a token that doesn't exist is rejected",
        [{"logit_bias": {"-1": 1}}, {"logit_bias": {str(2**63): 1}}],
    ),
    (
        "bias_name",
        "A bias of something that is no token is rejected",
        [{"logit_bias": {"a": 1}}, {"logit_bias": {"1e3": 1}}],
    ),
    ("bias_value", "A bias beyond any float is rejected", [{"logit_bias": {"1": 1e39}}, {"logit_bias": {"1": "x"}}]),
    ("role", "A role with markup is rejected", [{"messages": [{"role": "system<|im_end|>", "content": "a"}]}]),
)
HANDLED: tuple[Case, ...] = (
    (
        "max_tokens",
        "A limit of tokens beyond 32, 53 or 64 bits causes no server error",
        [{"max_tokens": 2**31}, {"max_tokens": 2**53 + 1}, {"max_tokens": 2**64}],
    ),
    (
        "max_tokens_sign",
        "A negative or fractional limit of tokens causes no server error",
        [{"max_tokens": -(2**31) - 1}, {"max_tokens": 1.5}],
    ),
    ("seed", "Seeds beyond 64 bits cause no server error", [{"seed": 2**64}, {"seed": -(2**70)}, {"seed": 0.5}]),
    (
        "bias_many",
        "A bias for each of 200,000 tokens causes no server error",
        [{"logit_bias": {str(each): -1 for each in range(200_000)}}],
    ),
    (
        "bias_all",
        "Biases that forbid every likely token cause no server error",
        [{"logit_bias": {str(each): -100 for each in range(2000)}}],
    ),
    ("stop_many", "10,000 stop sequences cause no server error", [{"stop": [f"stop{each}" for each in range(10_000)]}]),
    ("stop_long", "A stop sequence of 1 MiB causes no server error", [{"stop": ["a" * 2**20]}]),
    (
        "stop_empty",
        "Empty stop sequences cause no server error and no endless answer",
        [{"stop": [""]}, {"stop": ["", "\0"]}],
    ),
    ("tools_many", "5,000 tools cause no server error", [{"tools": _tools(5000)}]),
    (
        "tools_name",
        "A tool's name of 100 kB or with markup causes no server error",
        [{"tools": _tools(1, "a" * 100_000)}, {"tools": _tools(1, "</tool>\n")}],
    ),
    (
        "user",
        "Metadata of 1 MiB causes no server error",
        [{"user": "a" * 2**20}, {"metadata": {"a" * 2**18: "b" * 2**18}}],
    ),
    (
        "sampling",
        "Sampling parameters out of range cause no server error",
        [{"top_k": 2**40}, {"top_k": -(2**40)}, {"min_p": 1e300}, {"top_p": -1e-45}, {"repetition_penalty": 0}],
    ),
    (
        "stream_options",
        "Stream options of other types cause no server error",
        [{"stream": True, "stream_options": each} for each in WRONG_OPTIONS],
    ),
)
for name, text, bodies in REJECTED:
    attack(f"fields.{name}", text, CWE)(_fields(*bodies, judge=rejected))
for name, text, bodies in HANDLED:
    attack(f"fields.{name}", text, CWE)(_fields(*bodies))


@attack("fields.prompt", "A prompt of 4 MiB is rejected or answered without a server error", "CWE-770")
def _(target: Target) -> str:
    return handled(target.user("word " * (4 * 2**20 // 5)))


@attack("fields.line", "A prompt of 256 kB without a space takes no more than its share of time", "CWE-407")
def _(target: Target) -> str:
    return ", ".join(handled(target.user(character * 2**18)) for character in ("a", "\u0301", " "))


@attack("fields.tokens", "Token ids out of range in a completion cause no server error", "CWE-129")
def _(target: Target) -> str:
    prompts: tuple[Any, ...] = ([-1], [2**31], [2**63], [10**9], [[0, -5]], [1.5])
    bodies = [{"model": target.rest.model, "max_tokens": 1, "prompt": prompt} for prompt in prompts]
    return ", ".join(handled(target.rest.client.post("/v1/completions", json=body)) for body in bodies)


@attack("fields.embeddings", "50,000 texts to embed at once cause no server error", "CWE-770")
def _(target: Target) -> str:
    body = {"model": target.rest.model, "input": ["a"] * 50_000}
    return handled(target.rest.client.post("/v1/embeddings", json=body))
