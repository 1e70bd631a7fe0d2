"""Any content of the files that a run keeps leads to a start, or to an error of one line that names the file."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.state import StateError, claimed, make_operator_token
from service.auth.key_entry import KeysError
from service.server.listener import StartError
from tests.service.fakes import running

NUM_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
ENDPOINT = {"name": "e", "entities": [{"name": "a", "model": "scripted", "traffic_percentage": 100}]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "entities", "model", "endpoints", "models", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
CONTENTS = (
    st.binary(max_size=200)
    | VALUES.map(lambda value: json.dumps(value).encode())
    | VALUES.map(lambda value: json.dumps({"endpoints": [ENDPOINT, value], "revision": value}).encode())
    | st.sampled_from([b"", b"\n", b"{", b"[" * 5000, json.dumps({"endpoints": {"e": ENDPOINT}}).encode()])
)
quietly = settings(
    max_examples=NUM_EXAMPLES,
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)


def problem_of(**options: Any) -> str:
    """Start a service, and return the error that ended its start, or nothing."""

    async def start() -> str:
        try:
            async with running(**options) as run:
                return "" if await run.status() == "SERVING" else "not serving"
        except (StartError, KeysError) as error:
            return str(error)

    return asyncio.run(start())


def is_about(problem: str, path: Path) -> bool:
    """Return True if there is no problem, or one line that names the file."""
    return not problem or (str(path) in problem and "\n" not in problem)


@pytest.mark.parametrize("setting", ["endpoints_file", "loaded_models_file"])
def test_any_stored_state_starts_or_names_its_file(setting: str) -> None:
    """What can't be read is kept as it is."""

    @quietly
    @given(CONTENTS)
    def try_one(content: bytes) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder, "state.json")
            path.write_bytes(content)
            problem = problem_of(**{setting: path})
            assert is_about(problem, path)
            assert not problem or path.read_bytes() == content

    try_one()


def test_any_operator_token_starts_or_names_its_file() -> None:
    """A token that is too short, or no text, ends the start."""

    @quietly
    @given(st.binary(max_size=80))
    def try_one(content: bytes) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder, "operator-token")
            path.write_bytes(content)
            assert is_about(problem_of(auth={"operator_token_file": path}), path)

    try_one()


@quietly
@given(
    st.lists(st.sampled_from(["lock", "operator-token", ".operator-token.new", "endpoints.json", "certs"]), unique=True)
)
def test_any_layout_of_the_folder_is_used_or_named(folders: list[str]) -> None:
    """Folders in place of files are an error that names the state folder; anything else is used."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for each in folders:
            (folder / each).mkdir()
        problem = ""
        try:
            with claimed(folder):
                assert make_operator_token(folder).exists()
        except StateError as error:
            problem = str(error)
        assert problem.startswith(f"state_folder {folder}" if problem else "")
