"""The word list: the checked parts of a file, and the format of the list."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.word_list import word_list

ROOT = Path(__file__).resolve().parents[2]
WORDS = word_list(
    """
# a comment
[words]
foo
so many
[names]
foo
[roots]
docs
[exceptions]
docs/*.md, foo, the name of a product, and no other
demo/*, *, training data
"""
)
PYTHON = '''"""A docstring with foo."""

foo_count = 1  # so
# many of these
pieces = ["foo", "text with foo", f"of {foo_count} a Foo"]
food = """first
second foo
"""


class FooReader:
    """Nothing."""

    def read(self, own_foo: int) -> None:
        """Read so many."""
        self.foo = own_foo
        return {"foo_size": 1}
'''


def test_python_files() -> None:
    """Comments, docstrings, names, and literals with a space or in snake case are checked, word by word."""
    assert WORDS.findings("tools/reader.py", PYTHON) == [
        (1, "foo"),
        (3, "foo"),
        (3, "so many"),
        (5, "foo"),
        (7, "foo"),
        (11, "foo"),
        (14, "foo"),
        (15, "so many"),
        (16, "foo"),
        (17, "foo"),
    ]


def test_literals_of_tests_are_data() -> None:
    """In a folder named tests, only docstrings are checked of all literals."""
    lines = [line for line, _ in WORDS.findings("tests/tools/test_reader.py", PYTHON)]
    assert lines == [1, 3, 3, 11, 14, 15, 16]


@pytest.mark.parametrize(
    ("path", "text", "findings"),
    [
        ("a.proto", "// The foo.\nmessage A {\n  int32 foo_count = 1;\n}\n", [(1, "foo"), (3, "foo")]),
        ("a.cpp", "/* so\n * many */ int fooCount; int food;\n", [(1, "so many"), (2, "foo")]),
        ("a.md", "Food.\n\n> so\n> many `foo`\n", [(3, "so many"), (4, "foo")]),
        ("a.yaml", "key: food  # FOO\n", [(1, "foo")]),
    ],
)
def test_other_files(path: str, text: str, findings: list[tuple[int, str]]) -> None:
    """The whole text is checked, including parts of names."""
    assert WORDS.findings(path, text) == findings


def test_exceptions() -> None:
    """A reason may contain commas; a pattern crosses folders."""
    product, data = WORDS.exceptions
    assert product.reason == "the name of a product, and no other"
    assert product.covers("docs/a/b.md", "foo")
    assert not product.covers("docs/a.md", "so many")
    assert not product.covers("README.md", "foo")
    assert data.covers("demo/text.md", "so many")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[exceptions]\na.md, foo", "'a.md, foo' is not an exception; expected: path, word, reason"),
        ("[unknown]\n", "'[unknown]' is not in one of the sections words, names, roots, exceptions"),
        ("foo\n", "'foo' is not in one of the sections words, names, roots, exceptions"),
    ],
)
def test_malformed_lists(text: str, message: str) -> None:
    """The error names the malformed line."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        word_list(text)


def test_the_command_names_file_and_line(tmp_path: Path) -> None:
    """Findings are printed, and the exit status is 1; 0 without any."""
    file = tmp_path / "page.md"
    for text, output, status in (
        ("One.\nThe caller is told.\n", f"{file}:2: told\n", 1),
        ("The error is returned.\n", "", 0),
    ):
        file.write_text(text)
        command = [sys.executable, "-m", "tools.word_list", str(file)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == (output, status), done.stderr
