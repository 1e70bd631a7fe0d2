"""Small tokenizers, and a model of random logits, for the tests of constraints."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import numpy as np
import tokenizers

from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.formats.constraint import Grammar

END = "<|im_end|>"
SPECIAL = ("<|im_start|>", END)
ADDED = ("<think>", "</think>", "<tool_call>", "</tool_call>")


@cache
def tokenizer_of(*added: str, special: tuple[str, ...] = SPECIAL) -> FastTokenizer:
    """Return a byte-level tokenizer with a few words, the special tokens and the added ones."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    text = ["the name and the arguments", '{"name": "weather", "arguments": {"city": "Oslo"}}', "think think </thin"]
    backend.train_from_iterator(text * 3, trainer)
    backend.add_special_tokens(list(special))
    backend.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in added])
    return FastTokenizer(backend.to_str())


def token_id(tokenizer: FastTokenizer, token: str) -> int:
    """Return the id of an added token."""
    (found,) = tokenizer.encode(token)
    return found


def control_ids_of(tokenizer: FastTokenizer) -> dict[str, int]:
    """Return the tokenizer's added tokens, all of which are control tokens."""
    return {token["content"]: token["id"] for token in json.loads(tokenizer.json)["added_tokens"]}


def json_grammar(schema: Any, field: str = "schema") -> Grammar:
    """Return the grammar of a schema, with bounded white space."""
    layout = {"x-guidance": {"whitespace_flexible": True, "whitespace_pattern": "( )?"}}
    text = json.dumps(schema | layout if isinstance(schema, dict) else schema)
    return Grammar(f"start: %json {text}\n", field, schemas={field: text})


def regex_grammar(pattern: str, field: str = "regex") -> Grammar:
    """Return the grammar of a regular expression."""
    return Grammar(f"start: /{pattern}/\n", field)


def allowed_ids(constraint: ConstraintState, tokenizer: FastTokenizer) -> list[int]:
    """Return the tokens that a constraint's mask allows next."""
    mask = np.zeros((tokenizer.vocab_size + 31) // 32, dtype=np.int32)
    constraint.fill_mask(mask)
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: tokenizer.vocab_size]
    return [int(index) for index in np.nonzero(bits)[0]]


def babble(
    constraint: ConstraintState, tokenizer: FastTokenizer, end_id: int, rng: random.Random, max_tokens: int = 1500
) -> list[int]:
    """Return the tokens of a model of random logits under a constraint, up to and including the end of the text.

    It picks any allowed token; after many tokens it prefers those that close brackets. Fail after `max_tokens`.
    """
    closing = {tokenizer.encode(text)[0] for text in ('"', "}", "]", "0")} | {end_id}
    said: list[int] = []
    while not constraint.is_finished():
        assert len(said) < max_tokens, "never ends: " + tokenizer.decode(said)
        allowed = allowed_ids(constraint, tokenizer)
        assert allowed, "nothing may follow " + tokenizer.decode(said)
        wanted = [token for token in allowed if token in closing] if len(said) > rng.randrange(100) else []
        chosen = rng.choice(wanted if wanted and rng.random() < 0.8 else allowed)
        if chosen == end_id:
            break
        constraint.accept(chosen)
        said.append(chosen)
    return [*said, end_id]
