"""The runner's interpretation of its settings, and settings that it rejects before the start."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

import pytest
from sluice.v1 import model_pb2

from process.errors import ConfigError
from process.settings.process_settings import read_settings
from runner.run import exit_reason
from runner.settings import ROOT, Settings
from runner.startup.checks import RunError, check
from runner.startup.greeting import greeting
from runner.state import StateError, claimed, make_operator_token
from tests.e2e.stack import free_ports


def test_one_port_for_two_listeners_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names both settings, although the port is free."""
    flags = ["--endpoints-file", str(tmp_path / "endpoints.json"), "--envoy-port=18999", "--gateway-port=18999"]
    settings = read_settings(Settings, flags)
    with pytest.raises(RunError, match="envoy_port and gateway_port are both 18999"):
        check(settings)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """Each port in use has a line with its setting, and each wrong model one."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(3)]
        names = ("envoy-port", "gateway-port", "service-metrics-port")
        flags = [f"--{name}={port}" for name, port in zip(names, taken, strict=True)]
        (free,) = free_ports(1)
        settings = read_settings(Settings, [*flags, f"--service-port={free}", "--model=/nowhere"])
        with pytest.raises(RunError) as raised:
            check(settings)
    *ports, model = str(raised.value).splitlines()
    assert model.startswith("model nowhere: /nowhere has no config.json")
    for line, name, port in zip(ports, names, taken, strict=True):
        assert line.startswith(f"cannot listen on 127.0.0.1:{port} (")
        assert line.endswith(f"--{name} or SLUICE_{name.replace('-', '_').upper()}")


def test_state_folder_depends_on_the_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, endpoints and certificates are in a folder of Envoy's port, outside of what `make clean` removes."""
    first, second = (read_settings(Settings, [f"--envoy-port={port}", "--tls=server"]) for port in (18001, 18002))
    assert first.state() != second.state()
    for settings in (first, second):
        assert settings.endpoints() == settings.state() / "endpoints.json"
        assert (tls := settings.development_tls()) is not None
        assert tls.folder == settings.state() / "certs"
        assert ROOT / ".cache" not in settings.state().parents
    removed = (ROOT / "Makefile").read_text().rpartition("rm -rf")[2].split()
    assert first.state().relative_to(ROOT).parts[0] not in removed
    monkeypatch.setenv("SLUICE_STATE_FOLDER", str(tmp_path))
    assert read_settings(Settings, []).endpoints() == tmp_path / "endpoints.json"


def test_second_run_of_a_state_folder_is_rejected(tmp_path: Path) -> None:
    """A second run of the folder is rejected with what to do, until the first one has ended."""
    with claimed(tmp_path / "state"):
        with pytest.raises(StateError, match="is used by another run; choose another with --state-folder"):
            claimed(tmp_path / "state").__enter__()
        first = make_operator_token(tmp_path / "state").read_text()
    with claimed(tmp_path / "state"):
        assert make_operator_token(tmp_path / "state").read_text() == first
    assert len(first.strip()) >= 32


def test_model_name_is_given_or_derived_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is the last part of a folder or hub id, or the part before `=`; folders become absolute."""
    (tmp_path / "org" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    arguments = ["org/here", "other=./org/here/", "org/hub", "--model", "mine=org/hub"]
    folder = str(tmp_path / "org" / "here")
    assert read_settings(Settings, arguments).served() == {
        "here": folder,
        "other": folder,
        "hub": "org/hub",
        "mine": "org/hub",
    }


def test_gguf_files_are_named_by_their_stems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, as in the hub's cache, is not followed, since its target may have another name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blob").touch()
    for name in ("a.Q4_K_M.gguf", "b-00001-of-00002.gguf", "C.GGUF"):
        (tmp_path / name).symlink_to("blob")
    settings = read_settings(Settings, ["a.Q4_K_M.gguf", "./b-00001-of-00002.gguf", "mine=a.Q4_K_M.gguf", "C.GGUF"])
    assert settings.served() == {
        "a.Q4_K_M": f"{tmp_path}/a.Q4_K_M.gguf",
        "b": f"{tmp_path}/b-00001-of-00002.gguf",
        "mine": f"{tmp_path}/a.Q4_K_M.gguf",
        "C": f"{tmp_path}/C.GGUF",
    }


@pytest.mark.parametrize("given", ["models/a.gguf", "models/A.GGUF"])
def test_a_missing_gguf_file_is_no_model_of_the_hub(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path looks like ORG/MODEL."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=rf"{tmp_path}/{given} does not exist; expected a model's folder, a GGUF file"):
        check(read_settings(Settings, [given]))


def test_two_models_with_one_name_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names both and the syntax of a name."""
    arguments = [f"{tmp_path}/a/x", f"{tmp_path}/b/x"]
    with pytest.raises(ConfigError, match=rf"{tmp_path}/a/x and {tmp_path}/b/x are both named x"):
        read_settings(Settings, arguments)


def test_a_folder_without_a_model_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is checked before anything starts."""
    arguments = ["--model", str(tmp_path)]
    with pytest.raises(RunError, match=rf"model {tmp_path.name}: {tmp_path} has no config.json"):
        check(read_settings(Settings, arguments))


def test_a_folder_of_gguf_files_names_one_of_them(tmp_path: Path) -> None:
    for name in ("b.gguf", "A.GGUF"):
        (tmp_path / name).touch()
    file = re.escape(str(tmp_path / "A.GGUF"))
    with pytest.raises(RunError, match=rf"has no config.json; its GGUF file is served by its own name: {file}$"):
        check(read_settings(Settings, [str(tmp_path)]))
    with pytest.raises(RunError, match=r"model c: .*/c\.gguf does not exist; expected"):
        check(read_settings(Settings, [str(tmp_path / "c.gguf")]))


@pytest.mark.parametrize("given", ["name=", ""])
def test_a_name_without_a_model_is_rejected(given: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{given}' has no folder, GGUF file or hub id; expected NAME=MODEL"):
        read_settings(Settings, ["--model", given])


@pytest.mark.parametrize(
    ("task", "path"),
    [
        (model_pb2.TASK_CHAT, "chat/completions"),
        (model_pb2.TASK_COMPLETION, "completions"),
        (model_pb2.TASK_EMBEDDING, "embeddings"),
    ],
)
def test_greeting_has_a_request_for_the_first_models_task(
    task: model_pb2.Task, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is a chat, a completion or an embedding for the served model."""
    text = greeting(read_settings(Settings, []), [model_pb2.Model(name="mine", tasks=[task])])
    assert f"/v1/{path} -H" in text
    assert '"model": "mine"' in text


@pytest.mark.parametrize(
    ("flags", "origins"),
    [
        ([], ()),
        (["--cors-origins=https://a.example, http://B.example:3000"], ("https://a.example", "http://b.example:3000")),
        (
            ["--cors-origins=https://a.example", "--cors-origins=http://b.example"],
            ("https://a.example", "http://b.example"),
        ),
        (["--cors-origins=*"], ("*",)),
    ],
)
def test_origins_are_parsed_and_normalised(
    flags: list[str], origins: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Origins are separated by commas or repeated flags, and normalised as browsers send them."""
    assert read_settings(Settings, flags).cors_origins == origins
    monkeypatch.setenv("SLUICE_CORS_ORIGINS", ",".join(origins))
    assert read_settings(Settings, []).cors_origins == origins


@pytest.mark.parametrize("origin", ["https://a.example/", "a.example", "https://*.example", "https://a b"])
def test_invalid_origins_are_rejected(origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An origin that browsers never send is an error, because it would match no page."""
    arguments = [f"--cors-origins={origin}"]
    with pytest.raises(ConfigError, match="is not an origin; expected SCHEME://HOST"):
        read_settings(Settings, arguments)


@pytest.mark.parametrize(
    ("code", "words"), [(-9, "killed"), (137, "killed"), (-6, "aborted"), (134, "aborted"), (1, ""), (9, ""), (2, "")]
)
def test_exit_by_a_signal_is_explained(code: int, words: str) -> None:
    """A process that the kernel kills or that aborts leaves no reason in its log."""
    assert exit_reason(code).startswith(f" ({words}, " if words else "")
    assert bool(exit_reason(code)) is bool(words)
