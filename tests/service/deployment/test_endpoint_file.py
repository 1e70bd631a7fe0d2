"""The endpoint file stays whole, whatever happens to its writer."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from service.contract.models.endpoint_json import EndpointJson
from service.deployment.endpoint_document import EndpointDocument
from service.storage.document import SharedDocument
from service.storage.shared_file import SharedFile, SharedFileError
from tests.service.endpoint_states import state

ROOT = Path(__file__).resolve().parents[3]
GOOD = '{"endpoints": [{"name": "x", "entities": [{"name": "a", "model": "a", "traffic_percentage": 100}]}]}'


def file_at(path: Path) -> SharedDocument[EndpointDocument]:
    return SharedDocument(SharedFile(path), EndpointJson(is_strict=True))


def names_in(folder: Path) -> list[str]:
    """Return the names of all files in the folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def test_written_endpoints_are_read_back(tmp_path: Path) -> None:
    """Every field is restored, the newest state is read, and the folder has no other files."""
    file = file_at(tmp_path / "endpoints.json")
    assert file.read() == EndpointDocument()
    file.write(state(9))
    file.write(state(3))
    assert file.read() == state(3)
    assert names_in(tmp_path) == ["endpoints.json"]


def test_failed_write_keeps_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails at any point before its end loses only the new state."""
    file = file_at(tmp_path / "endpoints.json")
    file.write(state(2))

    def refuse(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        file.write(state(5))
    assert file.read() == state(2)
    assert names_in(tmp_path) == ["endpoints.json"]


@asynccontextmanager
async def writing(path: Path, *how: str) -> AsyncIterator[asyncio.StreamReader]:
    """Return the output lines of a writing process, which is killed by SIGKILL at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.service.endpoint_writer", str(path), *how),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "size", "left"),
    [(("fsync", "1"), 3, 1), (("replace", "1"), 3, 1), (("fsync", "2"), 50, 0)],
    ids=["before it is on the disk", "before it is in place", "before its name is on the disk"],
)
async def test_file_is_consistent_if_the_writer_dies_between_steps(
    point: tuple[str, str], size: int, left: int, tmp_path: Path
) -> None:
    """A writer killed between two steps leaves the old state or the new one; its temporary file is removed."""
    path = tmp_path / "endpoints.json"
    async with writing(path, *point) as output:
        assert await output.readline() == b"paused\n"
    assert len(names_in(tmp_path)) == 1 + left
    assert file_at(path).read() == state(size)
    assert names_in(tmp_path) == ["endpoints.json"]


@pytest.mark.slow
async def test_file_is_consistent_if_the_writer_is_killed_at_any_time(tmp_path: Path) -> None:
    """After SIGKILL at a random moment, the file has one complete state: the last confirmed one or a newer one."""
    path, draw = tmp_path / "endpoints.json", Random(5)
    for _ in range(5):
        async with writing(path, "loop") as output:
            lines = [await output.readline() for _ in range(draw.randrange(1, 40))]
            await asyncio.sleep(draw.random() / 100)
        lines += [line for line in (await output.read()).splitlines(keepends=True) if line.endswith(b"\n")]
        kept = file_at(path).read()
        size = len(kept.endpoints)
        assert kept == state(size)
        assert size in {int(lines[-1]), int(lines[-1]) % 59 + 1}  # the state confirmed last, or the one after it
        assert names_in(tmp_path) == ["endpoints.json"]


def test_temporary_files_of_a_dead_writer_are_removed(tmp_path: Path) -> None:
    """Only the endpoint file's own temporary files are removed; other files in the folder stay."""
    for name in (".endpoints.json.abc123.tmp", ".other.json.abc123.tmp", "endpoints.json.tmp"):
        (tmp_path / name).write_text("{")
    assert file_at(tmp_path / "endpoints.json").read() == EndpointDocument()
    assert names_in(tmp_path) == [".other.json.abc123.tmp", "endpoints.json.tmp"]


def test_temporary_files_of_a_name_with_brackets_are_removed(tmp_path: Path) -> None:
    """The file's name is not interpreted as a glob pattern."""
    for name in (".a[1].json.abc123.tmp", ".a1.json.abc123.tmp"):
        (tmp_path / name).write_text("{")
    assert file_at(tmp_path / "a[1].json").read() == EndpointDocument()
    assert names_in(tmp_path) == [".a1.json.abc123.tmp"]


def test_file_in_a_missing_folder_is_rejected(tmp_path: Path) -> None:
    """A missing folder is reported at the start, not at the first change."""
    with pytest.raises(SharedFileError, match=r"nowhere/endpoints\.json: the folder does not exist$"):
        file_at(tmp_path / "nowhere" / "endpoints.json").read()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "endpoints.json: "),
        ("{", "endpoints.json: "),
        ("[" * 200_000, "endpoints.json: it is nested too deeply"),
        ("[]", "endpoints.json: it must hold a JSON object"),
        ('{"endpoint": []}', '"endpoint"'),
        (GOOD.replace('"x"', '"no spaces"'), "'no spaces': does not match regex"),
        (GOOD.replace("100", "99"), "'x': traffic_percentage must add up to 100, not 99"),
        (GOOD.replace("100", "101"), "'x': must be less than or equal to 100"),
        ('{"endpoints": [{"name": "x"}]}', "'x': must contain at least 1 item"),
        (GOOD.replace("}]}", "}]}, " + GOOD[len('{"endpoints": [') : -2]), "duplicate endpoint 'x'"),
    ],
)
def test_bad_file_is_one_line_with_its_path(text: str, words: str, tmp_path: Path) -> None:
    """Values that the API rejects are rejected in the file, too, and no part of the file is used."""
    path = tmp_path / "endpoints.json"
    path.write_text(text)
    with pytest.raises(SharedFileError) as caught:
        file_at(path).read()
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_text() == text
