"""Malformed GGUF files are rejected with the field's name; no file makes the reader fail otherwise."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path
from random import Random

import gguf
import numpy as np
import pytest

from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.checkpoint.gguf.header import read_header
from service.generation.errors import ModelLoadError

HUGE = (1 << 64) - 1
NUM_MUTATED = int(os.environ.get("FUZZ_FILES", "1000"))


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str = "output.weight", shape: tuple[int, ...] = (32, 2), kind: int = 8, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def file_of(entries: list[bytes], tensors: list[bytes], data: int = 68, *, head: bytes | None = None) -> bytes:
    head = head if head is not None else b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    written = head + b"".join(entries) + b"".join(tensors)
    return written + bytes(-len(written) % 32 + data)


VALID = [
    entry("general.architecture", 8, text("llama")),
    entry("llama.block_count", 4, struct.pack("<I", 2)),
    entry("llama.rope.freq_base", 6, struct.pack("<f", 10_000.0)),
    entry("tokenizer.ggml.add_bos_token", 7, b"\x01"),
    entry("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + text("a") + text("b")),
    entry("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, 2) + struct.pack("<2f", 0.5, 1.5)),
]


def test_metadata_and_positions_are_read(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(file_of(VALID, [tensor(), tensor("norm.weight", (4,), 0, 96)], 112))
    header = read_header(file)
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["llama.block_count"] == 2
    assert header.metadata["tokenizer.ggml.add_bos_token"] is True
    assert header.metadata["tokenizer.ggml.tokens"] == ["a", "b"]
    assert header.metadata["tokenizer.ggml.scores"].tolist() == [0.5, 1.5]
    output, norm = header.tensors["output.weight"], header.tensors["norm.weight"]
    assert (output.shape, output.row_bytes, output.num_bytes) == ((2, 32), 34, 68)
    assert norm.offset - output.offset == 96


def test_files_of_the_format_s_own_writer_are_read(tmp_path: Path) -> None:
    """Names, types, shapes and positions are those that llama.cpp's package reads."""
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    writer.add_block_count(3)
    for name, kind in (("a.weight", gguf.GGMLQuantizationType.Q4_0), ("b.weight", gguf.GGMLQuantizationType.Q8_0)):
        writer.add_tensor(name, gguf.quantize(np.ones((3, 64), np.float32), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_header(tmp_path / "tiny.gguf")
    for theirs in gguf.GGUFReader(tmp_path / "tiny.gguf").tensors:
        own = header.tensors[theirs.name]
        assert own.shape == tuple(theirs.shape[::-1].tolist())
        assert (own.type.name, own.offset) == (theirs.tensor_type.name, theirs.data_offset)


MALFORMED: dict[str, tuple[bytes, str]] = {
    "magic": (b"GGML" + bytes(60), "it doesn't begin with GGUF"),
    "empty": (b"", "the file ends before the magic number"),
    "version": (file_of([], [], head=b"GGUF" + struct.pack("<IQQ", 1, 0, 0)), "version must be 2 or 3, not 1"),
    "byte order": (file_of([], [], head=b"GGUF" + struct.pack(">IQQ", 3, 0, 0)), "its byte order may be another"),
    "tensors": (file_of([], [], head=b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0)), "tensor_count must be at most"),
    "entries": (file_of([], [], head=b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE)), "metadata_kv_count must be at most"),
    "key": (file_of([struct.pack("<Q", HUGE)], []), "the length of key 0 of the metadata must be at most 1024"),
    "twice": (file_of(VALID[:1] * 2, []), "general.architecture occurs twice"),
    "string": (file_of([entry("a.b", 8, struct.pack("<Q", 1 << 40))], []), "the length of a.b must be at most"),
    "string's end": (file_of([entry("a.b", 8, struct.pack("<Q", 1 << 20))], []), "the file ends before a.b"),
    "not UTF-8": (file_of([entry("a.b", 8, struct.pack("<Q", 1) + b"\xff")], []), "a.b is not UTF-8"),
    "type": (file_of([entry("a.b", 13, b"")], []), "a.b has the unknown type 13"),
    "list": (
        file_of([entry("a.b", 9, struct.pack("<IQ", 4, HUGE))], []),
        "the length of a.b must be at most",
    ),
    "texts": (file_of([entry("a.b", 9, struct.pack("<IQ", 8, HUGE))], []), "the length of a.b must be at most"),
    "a text of a list": (
        file_of(
            [entry("a.b", 9, struct.pack("<IQ", 8, 3) + text("a") + struct.pack("<Q", 1) + b"\xff" + text("c"))], []
        ),
        r"a.b\[1\] is not UTF-8",
    ),
    "a text's length": (
        file_of([entry("a.b", 9, struct.pack("<IQ", 8, 2) + text("a") + struct.pack("<Q", 1 << 40))], []),
        r"the length of a.b\[1\] must be at most",
    ),
    "a text's end": (
        file_of([entry("a.b", 9, struct.pack("<IQ", 8, 2) + text("a") + struct.pack("<Q", 1 << 20))], []),
        r"the file ends before a.b\[1\]",
    ),
    "lists": (file_of([entry("a.b", 9, struct.pack("<IQ", 9, 1))], []), "a.b is a list of the unknown type 9"),
    "alignment": (
        file_of([entry("general.alignment", 4, struct.pack("<I", 33))], []),
        "general.alignment must be a power of two from 8 to 1048576, not 33",
    ),
    "dimensions": (file_of([], [tensor(shape=(32,) * 5)]), "output.weight must have 1 to 4 dimensions, not 5"),
    "no size": (file_of([], [tensor(shape=(0, 2))]), r"output.weight has the dimensions \[0, 2\]"),
    "overflow": (file_of([], [tensor(shape=(1 << 33, 1 << 33))]), "which the file can't hold"),
    "block": (
        file_of([], [tensor(shape=(33, 2))]),
        "the rows of output.weight must be a multiple of 32 for Q8_0, not 33",
    ),
    "tensor type": (file_of([], [tensor(kind=16)]), "output.weight has the type IQ2_XXS, which is not supported"),
    "unknown type": (file_of([], [tensor(kind=99)]), "output.weight has the type 99, which is not supported"),
    "offset": (file_of([], [tensor(offset=8)]), "the offset of output.weight must be a multiple of 32, not 8"),
    "overlapping": (
        file_of([], [tensor("b", (32, 4), offset=64), tensor("a")], 200),
        "the tensors a and b overlap",
    ),
    "the same": (file_of([], [tensor("a"), tensor("b")]), "the tensors a and b overlap"),
    "far": (file_of([], [tensor(offset=HUGE - 31)]), "the tensor output.weight ends behind the end of the file"),
    "truncated": (file_of([], [tensor()], 67), "the tensor output.weight ends behind the end of the file"),
    "same name": (file_of([], [tensor(), tensor()]), "the tensor output.weight occurs twice"),
}


SKIPPED = "a text of a list"  # its text isn't read without the lists


@pytest.mark.parametrize(
    ("name", "keeps_texts"),
    [(name, keeps) for name in MALFORMED for keeps in (True, False) if keeps or name != SKIPPED],
)
def test_malformed_files_are_rejected_by_the_field(name: str, tmp_path: Path, *, keeps_texts: bool) -> None:
    """The error names the file and the field, and no memory is taken for what the field describes."""
    written, message = MALFORMED[name]
    file = tmp_path / "bad.gguf"
    file.write_bytes(written)
    tracemalloc.start()
    with pytest.raises(ModelLoadError, match=message) as error:
        read_header(file, keeps_texts=keeps_texts)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert str(error.value).startswith(f"{file} can't be read as GGUF: ")


@pytest.mark.parametrize("lengths", [[], [0], [300_000, 0, 1], [200_000] * 5, [1, 1 << 18, 2, 3], [9] * 70_000])
def test_lists_of_texts_are_read_in_blocks(lengths: list[int], tmp_path: Path) -> None:
    """Texts may be longer than a block of the file or lie on the border of two, and what follows is found."""
    texts = [chr(97 + index % 26) * length for index, length in enumerate(lengths)]
    listed = struct.pack("<IQ", 8, len(texts)) + b"".join(text(each) for each in texts)
    file = tmp_path / "texts.gguf"
    file.write_bytes(file_of([entry("a.b", 9, listed), entry("a.c", 8, text("end"))], [tensor()]))
    header = read_header(file)
    assert header.metadata == {"a.b": texts, "a.c": "end"}
    assert list(header.tensors) == ["output.weight"]
    brief = read_header(file, keeps_texts=False)
    assert (brief.metadata, brief.tensors) == ({"a.b": [], "a.c": "end"}, header.tensors)


NUMBERS = (0, 1, 31, 32, 1 << 31, 1 << 32, 1 << 63, HUGE)


def mutated(written: bytes, random: Random) -> bytes:
    """Return the file with up to four numbers of 1, 4 or 8 bytes replaced, and sometimes cut or continued."""
    file = bytearray(written)
    for _ in range(random.randint(0, 4)):
        at, size = random.randrange(len(file)), random.choice((1, 4, 8))
        value = random.choice((*NUMBERS, random.getrandbits(64)))
        file[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
    if random.random() < 1 / 4:
        return bytes(file[: random.randrange(len(file))])
    return bytes(file) + random.randbytes(random.choice((0, 0, 40)))


# Experts whose gate and up are one tensor of 32 columns, 4 rows and 2 experts, and a norm.
EXPERTS = [
    entry("general.architecture", 8, text("granitemoe")),
    entry("granitemoe.attention.head_count", 4, struct.pack("<I", 2)),
    entry("granitemoe.expert_count", 4, struct.pack("<I", 2)),
]
EXPERT_TENSORS = [
    tensor("blk.0.ffn_gate_up_exps.weight", (32, 4, 2)),
    tensor("blk.0.ffn_down_exps.weight", (2, 32, 2), 0, 288),
    tensor("blk.0.attn_q.weight", (32, 4), 8, 800),
    tensor("blk.0.attn_norm.weight", (4,), 0, 960),
]


def test_tensors_of_mutated_files_are_read_or_rejected(tmp_path: Path) -> None:
    """Tensors of accepted headers have the shapes that the checkpoint states."""
    file, random = tmp_path / "mutated.gguf", Random(0)
    valid = file_of(EXPERTS, EXPERT_TENSORS, 976)
    num_read = 0
    for _ in range(NUM_MUTATED):
        file.write_bytes(mutated(valid, random))
        try:
            checkpoint = GgufCheckpoint(tmp_path, [read_header(file)])
            for name, shape in checkpoint.checkpoint_shapes().items():
                assert checkpoint.take(name, shape).shape == shape
        except ModelLoadError:
            continue
        num_read += 1
    assert 0 < num_read < NUM_MUTATED


def test_mutated_files_are_read_or_rejected(tmp_path: Path) -> None:
    """What is accepted lies within the file. `make fuzz` reads more files."""
    file, random = tmp_path / "mutated.gguf", Random(0)
    valid = file_of(VALID, [tensor(), tensor("norm.weight", (4,), 0, 96)], 112)
    num_accepted = 0
    for _ in range(NUM_MUTATED):
        file.write_bytes(mutated(valid, random))
        try:
            header = read_header(file)
        except ModelLoadError:
            continue
        num_accepted += 1
        for each in header.tensors.values():
            assert each.offset + each.num_bytes <= file.stat().st_size
        assert read_header(file, keeps_texts=False).tensors == header.tensors
    assert 0 < num_accepted < NUM_MUTATED
