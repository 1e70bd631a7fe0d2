"""Errors of settings."""

from __future__ import annotations


class ConfigError(Exception):
    """Settings are invalid. Each of `problems` is a line that begins with the name of a setting, flag or variable."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
