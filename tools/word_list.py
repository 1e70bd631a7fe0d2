"""The word list: report words that this project's texts don't use, as file:line: word.

    word_list.py [FILE...]      check the folders of tools/word_list.txt, or these files alone

In Python files it checks comments, docstrings, names, and string literals that contain a space or are in snake case; in
folders named `tests` no literals but docstrings, since those are data. In all other files it checks the whole text. The
words, the folders and the exceptions are in tools/word_list.txt. The exit status is 1 for a word found or an unused
exception.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "word_list.txt"
SUFFIXES = re.compile(
    r"\.(bash|c|cc|cfg|conf|cpp|cs|css|csproj|cu|go|gradle|h|hpp|html|java|js|json|kt|md|mjs|php|proto|py|rb|rs"
    r"|service|sh|svg|swift|toml|tpl|ts|yaml|yml)"
)
PLAIN_NAMES = {"Dockerfile", "Makefile", "run"}
_GAP = r"[\s#*/>|]+"  # between the words of a phrase: white space, and the marks that begin a line of a comment
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_IDENTIFIER = re.compile(r"[A-Za-z_]*[a-z]_[A-Za-z_]+|[A-Za-z]*[a-z][A-Z][A-Za-z]*")


@dataclass(frozen=True, slots=True)
class ListedException:
    """A word that the files of a pattern may contain, for a reason."""

    pattern: str  # an fnmatch pattern, relative to the repository; `*` crosses folders
    word: str  # one of the list's, or * for all of them
    reason: str

    def covers(self, path: str, word: str) -> bool:
        """Return True if `path` may contain `word`."""
        return self.word in {word, "*"} and fnmatch(path, self.pattern)


@dataclass(frozen=True, slots=True)
class WordList:
    """The words, the folders in which they are looked for, and the exceptions."""

    words: tuple[str, ...]  # words and phrases of texts, in lower case
    names: frozenset[str]  # words that no name contains
    roots: tuple[str, ...]  # files and folders, relative to the repository
    exceptions: tuple[ListedException, ...]

    def findings(self, path: str, text: str) -> list[tuple[int, str]]:
        """Return the line and the word of each finding in a file, without regard to exceptions."""
        pieces = _python_pieces(path, text) if path.endswith(".py") else [(1, text)]
        names = _python_names(path, text) if path.endswith(".py") else _identifiers(text)
        pattern = re.compile(
            r"\b(" + "|".join(re.escape(word).replace(r"\ ", _GAP) for word in self.words) + r")\b", re.IGNORECASE
        )
        found = {
            (line + piece.count("\n", 0, match.start()), " ".join(re.findall(r"\w+", match[1])).lower())
            for line, piece in pieces
            for match in pattern.finditer(piece)
        }
        for line, name in names:
            parts = {part.lower() for part in _NAME_PART.findall(name)}
            found.update((line, word) for word in parts & self.names)
        return sorted(found)


def word_list(text: str) -> WordList:
    """Read the list's file: sections in brackets, an entry a line. Raise ValueError for a malformed line."""
    sections: dict[str, list[str]] = {"words": [], "names": [], "roots": [], "exceptions": []}
    entries: list[str] | None = None
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            entries = sections.get(line[1:-1])
        if entries is None and line and not line.startswith("#"):
            raise ValueError(f"{line!r} is not in one of the sections {', '.join(sections)}")
        if entries is not None and line and line[0] not in "#[":
            entries.append(line)
    exceptions = []
    for line in sections["exceptions"]:
        pattern, word, reason = ([each.strip() for each in line.split(",", 2)] + ["", ""])[:3]
        if not reason:
            raise ValueError(f"{line!r} is not an exception; expected: path, word, reason")
        exceptions.append(ListedException(pattern, word, reason))
    return WordList(
        words=tuple(sections["words"]),
        names=frozenset(sections["names"]),
        roots=tuple(sections["roots"]),
        exceptions=tuple(exceptions),
    )


def _python_pieces(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield each comment, docstring and literal that contains a space, with its line."""
    lines: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines += [""] * (token.start[0] - len(lines))
            lines[token.start[0] - 1] = token.string
    yield 1, "\n".join(lines)  # together, since a phrase may continue in the next line's comment
    tree = ast.parse(text)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    literals = "tests" not in Path(path).parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            if id(node) in docstrings:
                yield node.lineno, node.value
            elif literals:
                on_one_line = node.lineno == node.end_lineno
                yield node.lineno, node.value.replace("\n", " ") if on_one_line else node.value


def _python_names(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield each name that the file defines and each literal in snake case, such as the key of a report."""
    literals = "tests" not in Path(path).parts
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif literals and isinstance(node, ast.Constant) and _is_snake_case(node.value):
            yield node.lineno, str(node.value)


def _is_snake_case(value: object) -> bool:
    return isinstance(value, str) and "_" in value and value.isidentifier()


def _identifiers(text: str) -> Iterator[tuple[int, str]]:
    """Yield each identifier in snake case or camel case, with its line."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _IDENTIFIER.finditer(line):
            yield number, match[0]


def tracked(roots: tuple[str, ...]) -> list[str]:
    """Return the text files of the repository in these folders."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--", *roots], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    paths = (path for path in listing.split("\0") if path and (ROOT / path).is_file())
    return [path for path in paths if SUFFIXES.fullmatch(Path(path).suffix) or Path(path).name in PLAIN_NAMES]


def main(*files: str) -> int:
    """Print every finding that no exception covers. Return the exit status."""
    words = word_list(LIST.read_text())
    used: set[ListedException] = set()
    status = 0
    for path in files or tracked(words.roots):
        for line, word in words.findings(path, Path(ROOT, path).read_text()):
            covering = {each for each in words.exceptions if each.covers(path, word)}
            used |= covering
            if not covering:
                print(f"{path}:{line}: {word}")
                status = 1
    for each in words.exceptions if not files else ():
        if each not in used:
            print(f"tools/word_list.txt: the exception {each.pattern}, {each.word} is unused")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
