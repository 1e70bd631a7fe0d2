"""HPACK (RFC 7541) as far as an attacker needs it: literal headers are written, and statuses are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Headers = Iterable[tuple[str, str]]

_STATIC: Mapping[int, tuple[str, str]] = {  # the entries of the static table that name a status
    index: (":status", status) for index, status in enumerate(("200", "204", "206", "304", "400", "404", "500"), 8)
}
_NUM_STATIC = 61
_CODES = {  # Huffman's codes of up to 8 bits, by length: they are assigned in order, and cover letters and digits
    5: "012aceiost",
    6: " %-./3456789=A_bdfghlmnpru",
    7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: "&*,;XZ",
}


def _symbols() -> dict[tuple[int, int], str]:
    found, code, previous = {}, 0, 5
    for length, characters in _CODES.items():
        code <<= length - previous
        previous = length
        for character in characters:
            found[length, code] = character
            code += 1
    return found


_SYMBOLS = _symbols()


def encoded(headers: Headers) -> bytes:
    """Return headers as literals that are not indexed."""
    return b"".join(literal(name, value) for name, value in headers)


def literal(name: str, value: str, *, is_indexed: bool = False) -> bytes:
    """Return a header as a literal with a new name, which the receiver's table stores if it is indexed."""
    return (b"\x40" if is_indexed else b"\x00") + _text(name) + _text(value)


def integer(value: int, bits: int, first: int = 0) -> bytes:
    """Return an integer with a prefix of `bits` bits; `first` has the bits before it."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([first | value])
    content, value = [first | limit], value - limit
    while value >= 128:
        content.append(value % 128 + 128)
        value //= 128
    return bytes([*content, value])


def _text(text: str) -> bytes:
    content = text.encode("latin-1")
    return integer(len(content), 7) + content


class Decoder:
    """Reads the header blocks of one connection, in order. Names and values outside of statuses may be incomplete."""

    def __init__(self) -> None:
        self._table: list[tuple[str, str]] = []
        self._block, self._at = b"", 0

    def headers(self, block: bytes) -> list[tuple[str, str]]:
        """Return the headers of a block; an entry of the static table without a status has an empty name."""
        self._block, self._at = block, 0
        found = []
        while self._at < len(block):
            first = block[self._at]
            if first & 0x80:
                found.append(self._entry(self._integer(7)))
            elif first & 0xE0 == 0x20:
                self._integer(5)  # a new size of the table
            else:
                is_indexed = bool(first & 0x40)
                index = self._integer(6 if is_indexed else 4)
                name = self._entry(index)[0] if index else self._string()
                found.append((name, self._string()))
                if is_indexed:
                    self._table.insert(0, found[-1])
        return found

    def _entry(self, index: int) -> tuple[str, str]:
        if index > _NUM_STATIC and index - _NUM_STATIC <= len(self._table):
            return self._table[index - _NUM_STATIC - 1]
        return _STATIC.get(index, (":status", "") if 8 <= index <= 14 else ("", ""))

    def _integer(self, bits: int) -> int:
        limit = (1 << bits) - 1
        value = self._byte() & limit
        if value < limit:
            return value
        shift, more = 0, 0x80
        while more & 0x80:
            more = self._byte()
            value += (more & 0x7F) << shift
            shift += 7
        return value

    def _byte(self) -> int:
        self._at += 1
        return self._block[self._at - 1] if self._at <= len(self._block) else 0

    def _string(self) -> str:
        is_huffman = bool(self._at < len(self._block) and self._block[self._at] & 0x80)
        length = self._integer(7)
        content = self._block[self._at : self._at + length]
        self._at += length
        return _unpacked(content) if is_huffman else content.decode("latin-1")


def _unpacked(content: bytes) -> str:
    """Return Huffman-coded text up to the first character whose code is longer than 8 bits."""
    text, code, length = "", 0, 0
    for byte in content:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            if (length, code) in _SYMBOLS:
                text += _SYMBOLS[length, code]
                code, length = 0, 0
    return text
