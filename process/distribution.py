"""The distribution: the name by which pip installs this product, and its installed version."""

from __future__ import annotations

from importlib import metadata
from typing import Final

NAME: Final = "sluice-llm"  # `sluice` on PyPI is another project's


def installed_version() -> str:
    """Return the version of the installed distribution. Raise PackageNotFoundError in a checkout without one."""
    return metadata.version(NAME)
