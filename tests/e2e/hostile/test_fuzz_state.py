"""State files with any content lead to a start, or to a one-line error that names the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.state import StateError, claimed, make_operator_token
from service.server.listener import StartError
from service.server.stores import change_store, endpoint_store, operator_access
from service.settings.config import Settings
from service.storage.shared_file import SharedFileError

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
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


STORES: dict[str, Callable[[Path], Any]] = {
    "endpoints": lambda path: endpoint_store(Settings(endpoints_file=path)).read(),
    "models": lambda path: change_store(Settings(loaded_models_file=path)).read(),
    "operator token": lambda path: operator_access(Settings(auth={"operator_token_file": path})),
}


@pytest.mark.parametrize("name", STORES)
def test_state_file_with_any_content_is_used_or_rejected_by_path(name: str) -> None:
    """A file that can't be used is kept as it is, and named by the error that ends the start."""

    @quietly
    @given(CONTENTS)
    def try_one(content: bytes) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder, "state")
            path.write_bytes(content)
            problem = ""
            try:
                STORES[name](path)
            except (SharedFileError, StartError) as error:
                problem = str(error)
            assert not problem or (str(path) in problem and "\n" not in problem)
            assert path.read_bytes() == content

    try_one()


@quietly
@given(
    st.lists(st.sampled_from(["lock", "operator-token", ".operator-token.new", "endpoints.json", "certs"]), unique=True)
)
def test_state_folder_with_any_layout_is_used_or_rejected_by_path(folders: list[str]) -> None:
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
