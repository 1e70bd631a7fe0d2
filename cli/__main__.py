"""The entry point of the command: `sluice` or `python -m cli`."""

from __future__ import annotations

from cli.app import APP


def main() -> None:
    """Run the command."""
    APP()


if __name__ == "__main__":
    main()
