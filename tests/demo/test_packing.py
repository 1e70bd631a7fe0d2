"""Packing: what is taught, and rows that waste little."""

from itertools import islice

import pytest
from tokenizers import Tokenizer

from demo.corpus.conversation import Conversation, ask, segments
from demo.corpus.mixture import conversations
from demo.packing import IGNORED, TARGET_MULTIPLE, Packer, encode


def test_encode_teaches_the_answer_and_its_end(tokenizer: Tokenizer) -> None:
    """Of one exchange exactly the answer and the end of the turn are taught."""
    token_ids, taught = encode(tokenizer, ask("Hello", "Good day!"))
    said = [i for i, is_taught in zip(token_ids, taught, strict=True) if is_taught]
    assert tokenizer.decode(said, skip_special_tokens=False) == "Good day!<|im_end|>"


def test_encode_equals_encoding_the_whole_text(tokenizer: Tokenizer) -> None:
    """Cutting a conversation into taught and given pieces leaves its tokens as a server would see them."""
    for conversation in islice(conversations(3), 200):
        token_ids, taught = encode(tokenizer, conversation)
        assert token_ids == tokenizer.encode("".join(text for text, _ in segments(conversation))).ids
        assert len(taught) == len(token_ids)


def test_packer_fills_rows(tokenizer: Tokenizer) -> None:
    """Rows are full but for a few places in a hundred, and every target is the token after its position.

    The places that fill a batch's positions up to a multiple teach nothing.
    """
    packer = Packer(tokenizer, conversations(1), batch_tokens=2048)
    batches = [packer.batch() for _ in range(12)]
    used = [(batch.documents >= 0).float().mean().item() for batch in batches]
    assert sum(used) / len(used) > 0.94
    for batch in batches:
        assert batch.token_ids.numel() == 2048
        documents, flat = batch.documents.flatten(), batch.token_ids.flatten()
        assert len(batch.positions) == len(batch.targets)
        assert len(batch.positions) % TARGET_MULTIPLE == 0
        taught = batch.positions[batch.targets != IGNORED]
        assert len(batch.positions) - TARGET_MULTIPLE < len(taught) == len(set(taught.tolist()))
        assert (flat[taught + 1] == batch.targets[: len(taught)]).all()
        assert (documents[taught] == documents[taught + 1]).all()


def test_packer_leaves_out_what_is_too_long(tokenizer: Tokenizer) -> None:
    """A conversation longer than the longest row is skipped, not cut."""
    long, short = ask("word " * 200, "Yes."), ask("Hello", "Good day!")
    packer = Packer(tokenizer, iter([long, *[short] * 1000]), batch_tokens=64, lengths=(64,))
    assert tokenizer.encode("word").ids[0] not in packer.batch().token_ids
    assert packer.num_drawn > 1


@pytest.mark.parametrize(
    "conversation", [ask("Hello", "Good day!"), Conversation(raw=(("1, 2,", False), (" 3", True)))]
)
def test_encode_never_teaches_a_first_token(tokenizer: Tokenizer, conversation: Conversation) -> None:
    """There is nothing to foretell the first token from, so packing may drop it."""
    assert encode(tokenizer, conversation)[1][0] is False
