"""What the runner makes of its settings, and refuses before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from sluice.v1 import model_pb2

from runner.greeting import greeting
from runner.settings import RunError, Settings, check


def test_one_port_for_two_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both settings are named; each port by itself would be free."""
    monkeypatch.setattr(sys, "argv", ["run", "--endpoints-file", str(tmp_path / "endpoints.json")])
    settings = Settings(envoy_port=18999, gateway_port=18999)
    with pytest.raises(RunError, match="envoy_port and gateway_port are both 18999"):
        check(settings)


def test_models_are_named_by_their_folder_or_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder by its last part, a hub id by the model's, and whatever stands before `=`; folders become absolute."""
    (tmp_path / "org" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run", "org/here", "other=./org/here/", "org/hub", "--model", "mine=org/hub"])
    folder = str(tmp_path / "org" / "here")
    assert Settings().served() == {"here": folder, "other": folder, "hub": "org/hub", "mine": "org/hub"}


def test_two_models_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says which two, and how to name one."""
    monkeypatch.setattr(sys, "argv", ["run", f"{tmp_path}/a/x", f"{tmp_path}/b/x"])
    with pytest.raises(ValidationError, match=rf"{tmp_path}/a/x and {tmp_path}/b/x are both named x"):
        Settings()


def test_a_folder_without_a_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named and unnamed alike, before anything starts."""
    monkeypatch.setattr(sys, "argv", ["run", "--model", str(tmp_path)])
    with pytest.raises(RunError, match=rf"model {tmp_path.name}: {tmp_path} has no config.json"):
        check(Settings())


@pytest.mark.parametrize(
    ("task", "path"),
    [
        (model_pb2.TASK_CHAT, "chat/completions"),
        (model_pb2.TASK_COMPLETION, "completions"),
        (model_pb2.TASK_EMBEDDING, "embeddings"),
    ],
)
def test_the_greeting_has_a_request_that_fits_the_first_model(
    task: model_pb2.Task, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chat, a completion or an embedding, of the model that is served."""
    monkeypatch.setattr(sys, "argv", ["run"])
    text = greeting(Settings(), [model_pb2.Model(name="mine", tasks=[task])])
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
def test_origins_of_pages(flags: list[str], origins: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With commas or by several flags, as browsers write them."""
    monkeypatch.setattr(sys, "argv", ["run", *flags])
    assert Settings().cors_origins == origins
    monkeypatch.setattr(sys, "argv", ["run"])
    monkeypatch.setenv("SLUICE_CORS_ORIGINS", ",".join(origins))
    assert Settings().cors_origins == origins


@pytest.mark.parametrize("origin", ["https://a.example/", "a.example", "https://*.example", "https://a b"])
def test_what_is_no_origin_is_refused(origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser would never send it, so that nobody could call, without a word why."""
    monkeypatch.setattr(sys, "argv", ["run", f"--cors-origins={origin}"])
    with pytest.raises(ValidationError, match="is not an origin; expected SCHEME://HOST"):
        Settings()
