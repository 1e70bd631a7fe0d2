"""TokenTable: the bytes of tokens without a tokenizer."""

from __future__ import annotations

import tracemalloc

from service.engine.tokens.token_table import TokenTable


def test_table_returns_each_tokens_bytes_and_the_text() -> None:
    """Ids without a token, such as those of a padded head, have no bytes."""
    table = TokenTable('{"é": "Ġ"}', [b"a", b"", b"bc", "é".encode()], {3})
    assert [table.token_bytes(token_id) for token_id in range(-1, 6)] == [b"", b"a", b"", b"bc", "é".encode(), b"", b""]
    assert table.json == '{"é": "Ġ"}'
    assert table.vocab_size == 4
    assert table.special_token_ids == {3}


def test_table_of_a_large_vocabulary_is_small() -> None:
    """The tables of 100,000 tokens take less memory than as many objects."""
    tokens = [b"%d" % number for number in range(100_000)]
    tracemalloc.start()
    try:
        table = TokenTable("{}", tokens, ())
        current, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.token_bytes(99_999) == b"99999"
    assert current < 20 * len(tokens)
