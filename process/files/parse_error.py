"""Errors of reading and parsing a file, for one line of text."""

from __future__ import annotations

import yaml


def parse_error_text(error: Exception) -> str:
    """Return the text of an error on one line, with the position in the file if it is known."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark) is not None:
        return f"{error.problem} (at line {mark.line + 1}, column {mark.column + 1})"
    return " ".join(str(error).split())
