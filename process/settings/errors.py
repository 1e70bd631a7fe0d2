"""Errors of settings."""

from __future__ import annotations


class ConfigError(Exception):
    """A setting is bad; the text is one line that begins with its name: a setting's, a flag's or a variable's."""
