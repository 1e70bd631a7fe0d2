"""Every failure of a load is a ModelLoadError, so that a server serves its other models."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from service.engine.interface.running_load import LoadCancelled
from service.engine.models.checkpoint.encoders.pair_files import is_cross_encoder, unsupported_head
from service.engine.models.checkpoint.encoders.sentence_files import is_encoder
from service.generation.errors import ModelChanged, ModelLoadError
from service.generation.stats import EngineStats
from service.loading.failures import explained_failures
from service.loading.model import load_model
from service.settings.bundled_models import DEMO_FOLDER
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ModelSettings

_NESTED = '{"a":' * 100_000
_CONFIGS = {
    "a-dict": '{"architectures": {"a": 1}}',
    "a-number": '{"architectures": 7}',
    "a-text": '{"architectures": "BertModel"}',
    "nested": _NESTED,
    "type-is-a-list": '{"model_type": ["llama"]}',
}


class IgnoringObserver:
    """A step observer that ignores all steps."""

    def on_step(self, stats: EngineStats) -> None:
        """Ignore the step."""


def load(folder: Path) -> None:
    engine = EngineSettings(num_blocks=64, worker="thread")
    settings = ModelSettings(name="demo", path=str(folder), dtype="auto", device="cpu", cache_share=1, engine=engine)
    load_model(settings, IgnoringObserver())


@pytest.mark.parametrize("text", _CONFIGS.values(), ids=_CONFIGS)
def test_a_strange_config_is_a_load_error(text: str, tmp_path: Path) -> None:
    """The error names the folder; deciding the kind of the model raises nothing."""
    folder = tmp_path / "model"
    shutil.copytree(DEMO_FOLDER, folder)
    (folder / "config.json").write_text(text)
    kinds = (is_cross_encoder(folder), is_encoder(folder), unsupported_head(folder))
    assert kinds == (False, False, None)
    with pytest.raises(ModelLoadError, match=str(folder)):
        load(folder)


@pytest.mark.parametrize("name", ["generation_config.json", "modules.json", "tokenizer.json", "tokenizer_config.json"])
def test_a_nested_file_is_a_load_error(name: str, tmp_path: Path) -> None:
    """A file that is nested too deeply for Python's reader fails its model only."""
    folder = tmp_path / "model"
    shutil.copytree(DEMO_FOLDER, folder)
    (folder / name).write_text(_NESTED)
    with pytest.raises(ModelLoadError, match=str(folder)):
        load(folder)


def test_modules_that_are_no_objects_are_a_load_error(tmp_path: Path) -> None:
    """The list of modules may hold only objects."""
    (tmp_path / "modules.json").write_text("[1, 2]")
    with pytest.raises(ModelLoadError, match=r"modules\.json: only the modules"):
        load(tmp_path)


def test_an_unexpected_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The ModelLoadError has the model's name, the error's type and its text."""
    with (
        pytest.raises(ModelLoadError, match=r"^/models/a: it can't be loaded: KeyError: 'x'$"),
        explained_failures("/models/a"),
    ):
        raise KeyError("x")
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "/models/a can't be loaded")
    assert record.exc_info is not None


def test_a_lack_of_memory_has_its_own_text(caplog: pytest.LogCaptureFixture) -> None:
    """It is no defect, so that there is no traceback."""
    with (
        pytest.raises(ModelLoadError, match=r"^/models/a: not enough memory: an allocation failed"),
        explained_failures("/models/a"),
    ):
        raise MemoryError
    assert not caplog.records


@pytest.mark.parametrize("error", [ModelChanged("files"), LoadCancelled(), KeyboardInterrupt()])
def test_expected_errors_are_unchanged(error: BaseException) -> None:
    """Errors that callers handle keep their types."""
    with pytest.raises(type(error)) as caught, explained_failures("/models/a"):
        raise error
    assert caught.value is error
