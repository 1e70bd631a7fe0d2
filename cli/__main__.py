"""Starts the command: `sluice` or `python -m cli`."""

from __future__ import annotations

from cli.app import APP


def main() -> None:
    """The console script."""
    APP()


if __name__ == "__main__":
    main()
