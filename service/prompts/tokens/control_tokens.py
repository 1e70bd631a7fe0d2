"""Prevent clients' text from becoming control tokens.

Each control token that a client's string spells is put between two marks before the chat template gets it, and the text
between two marks of the rendered prompt is encoded as plain text.

The marks are characters of a private-use plane, drawn for each render among those that the input doesn't contain, so
that no client can forge one and no character of the input is lost. A template that splits a string leaves single marks,
which still prevent the text on both sides from forming a token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from service.engine.tokens.plain_encoder import PlainEncoder
from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest

_PRIVATE_USE = range(0xF0000, 0xFFFFE)
_MAX_TRIALS = 4096  # to find marks: no legitimate text contains more of them
# One of these marks in a form of `_escaped`.
_ESCAPED_MARK = re.compile(r"\\udb8[0-3]\\ud[c-f][0-9a-f]{2}|\\U000f0[0-9a-f]{3}")


class Marks(NamedTuple):
    """The marks around a control token that a client spelled; `close` alone separates the text on its two sides.

    `end` marks the position where a prompt is cut.
    """

    open: str
    close: str
    end: str


class ControlTokens:
    """The control tokens of one model: its special tokens, and the added tokens that its chat template writes."""

    def __init__(self, tokenizer: Tokenizer, template: str) -> None:
        """`template` is the chat template's source. Added tokens that are not in it, such as HTML tags, are text."""
        settings = json.loads(tokenizer.json)
        self.added = frozenset(token["content"] for token in settings["added_tokens"])  # including those that are text
        self.ids: dict[str, int] = {
            token["content"]: token["id"]
            for token in settings["added_tokens"]
            if token["content"].strip() and (token["special"] or token["content"] in template)
        }
        self._tokenizer = tokenizer
        self._plain = PlainEncoder(tokenizer.json, tokenizer.encode("\n"))
        self._token = re.compile(_any_of(self.ids))
        # Suffixes and prefixes of tokens: the text around a string could complete them to a token.
        self._token_ends = frozenset(token[n:] for token in self.ids for n in range(1, len(token)))
        self._token_beginnings = frozenset(token[:n] for token in self.ids for n in range(1, len(token)))
        self._max_part = max(map(len, self._token_ends), default=0)

    def draw_marks(self, value: Any, field: str = "messages") -> Marks:
        """Return marks that `value`'s strings contain neither literally nor in an escaped form.

        Raise InvalidRequest for `field` if the strings contain the first thousands of possible marks.
        """
        spelled: set[str] = set()
        for text in _strings(value):
            if not text.isascii():
                spelled.update(text)
            if "\\" in text:
                spelled.update(_ESCAPED_MARK.findall(text))
        marks = map(chr, _PRIVATE_USE[:_MAX_TRIALS])
        unused = [*islice((mark for mark in marks if spelled.isdisjoint((mark, *_escaped(mark)))), 3)]
        if len(unused) < 3:
            raise InvalidRequest(field, f"must not contain all characters from U+{_PRIVATE_USE[0]:X} on")
        return Marks(*unused)

    def mark(self, value: Any, marks: Marks) -> Any:
        """Return `value` with marks around each control token that its strings, including keys, spell."""
        if isinstance(value, str):
            text = self._token.sub(lambda token: marks.open + token[0] + marks.close, value)
            lengths = range(1, min(self._max_part, len(text)) + 1)
            before = marks.close if any(text[:n] in self._token_ends for n in lengths) else ""
            after = marks.close if any(text[-n:] in self._token_beginnings for n in lengths) else ""
            return before + text + after
        if isinstance(value, Mapping):
            return {self.mark(key, marks): self.mark(item, marks) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.mark(item, marks) for item in value]
        return value

    def encode(self, rendered: str, marks: Marks) -> list[int]:
        """Return the ids of a rendered prompt, with control tokens only where the template wrote them."""
        for mark in marks:
            for form in _escaped(mark):
                rendered = rendered.replace(form, mark)
        spelled = f"{marks.open}({self._token.pattern}){marks.close}"
        token_ids: list[int] = []
        ids_of_spelled: dict[str, list[int]] = {}
        # Splitting by a pattern with one group alternates between text and spelled tokens.
        for index, part in enumerate(re.split(spelled, rendered)):
            if index % 2 == 1:
                if part not in ids_of_spelled:
                    ids_of_spelled[part] = self._encode_spelled(part)
                token_ids += ids_of_spelled[part]
                continue
            for segment in re.split(f"[{marks.open}{marks.close}]", part):
                if segment:
                    token_ids += self._encode_segment(segment, is_first=not token_ids)
        return token_ids

    def encode_plain(self, text: str) -> list[int]:
        """Return the ids of a piece of text, without control tokens and without a prefix for the start of a text."""
        return self._plain.encode(text)

    def _encode_segment(self, segment: str, *, is_first: bool) -> list[int]:
        """Return the ids of a segment of the prompt.

        Unless it is the first, a line end is put before it and its ids are removed afterwards, because a sentencepiece
        tokenizer would add a space there as at the start of a text.
        """
        following = [] if is_first else self._plain.after_newline(self._tokenizer.encode("\n" + segment))
        return following or self._tokenizer.encode(segment)

    def _encode_spelled(self, token: str) -> list[int]:
        """Return the ids of a control token's spelling as plain text."""
        token_ids = self._plain.encode(token)
        if self.ids[token] not in token_ids:
            return token_ids
        # Some vocabularies have the spelling as plain text too. Neither of two halves can be the token.
        return self._plain.encode(token[:1]) + self._plain.encode(token[1:])


def _escaped(mark: str) -> tuple[str, str]:
    """Return the forms in which a template may have written a mark inside a value: in JSON, or as Python's repr."""
    return json.dumps(mark)[1:-1], repr(mark)[1:-1]


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings inside a value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)


def _any_of(texts: Iterable[str]) -> str:
    """Return a pattern that matches the longest of `texts` at a position, or nothing if there are none.

    It is a tree of their common prefixes, so that the time per position doesn't grow with their number.
    """
    tree: dict[str, Any] = {}
    for text in texts:
        node = tree
        for character in text:
            node = node.setdefault(character, {})
        node[""] = {}  # a text ends here
    return _pattern(tree) or "(?!)"


def _pattern(node: Mapping[str, Any]) -> str:
    """Return a regular expression for the texts of a trie."""
    run = ""
    while len(node) == 1 and "" not in node:
        ((character, node),) = node.items()
        run += re.escape(character)
    branches = [re.escape(character) + _pattern(child) for character, child in node.items() if character]
    if not branches:
        return run
    return f"{run}(?:{'|'.join(branches)})" + ("?" if "" in node else "")
