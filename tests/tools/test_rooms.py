"""The sizes of packages, folders and files are limited, and imports between packages have one direction."""

from __future__ import annotations

import pytest

from tools.rooms import ENGINE, MAX_FILES, MAX_LAYERS, MAX_LINES, drawing, imports_of, layer_counts, sizes


def test_contract_with_too_many_layers_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    layers = [f"layer{number}" for number in range(MAX_LAYERS + 1)]
    assert layer_counts({"a": layers[1:], "b": layers}) == [f"b has {MAX_LAYERS + 1} layers, at most 15 are allowed"]
    assert capsys.readouterr().out.split()[-4:] == ["a", str(MAX_LAYERS), "b", str(MAX_LAYERS + 1)]


@pytest.mark.parametrize(
    ("imports", "faults"),
    [
        ({"core": {"tokens"}, "link": {"core"}, "models": {"core", "tokens"}, "tokens": set()}, []),
        ({"core": set(), "link": {"models"}, "models": set(), "tokens": set()}, ["link imports models, which is not"]),
        ({"core": set(), "link": set(), "models": set(), "tokens": {"core"}}, ["tokens imports core, which is not"]),
    ],
)
def test_import_of_a_higher_or_equal_layer_is_reported(imports: dict[str, set[str]], faults: list[str]) -> None:
    found = drawing(["models | link", "core", "tokens"], imports)
    assert found == [f"{fault} below it" for fault in faults]


def test_drawing_has_the_packages_that_modules_import() -> None:
    imports = imports_of(ENGINE)
    assert "models" in imports["runner"]
    assert imports["device"] == set()


@pytest.mark.parametrize(
    ("files", "faults"),
    [
        ({f"a/{number}.py": MAX_LINES for number in range(MAX_FILES)} | {"a/__init__.py": 1, "b.md": 9999}, []),
        ({f"a/{number}.py": 1 for number in range(17)}, ["a has 17 files, at most 16 are allowed"]),
        ({f"docs/runbooks/{number}.md": 1 for number in range(40)}, []),
        ({"a/b.py": 301}, ["a/b.py has 301 lines, at most 300 are allowed"]),
    ],
)
def test_full_folder_or_long_file_is_reported(files: dict[str, int], faults: list[str]) -> None:
    assert sizes(files) == faults
