"""Run every `check_…` function of one file with the interpreter that it needs, and print the result of each.

Usage: PYTHON run_checks.py FILE URL UNAVAILABLE_URL. URL is the address of a whole product; UNAVAILABLE_URL is that of
a gateway without a service. Prints one JSON object: check name → null or the traceback. Needs only Python.
"""

import json
import runpy
import sys
import traceback


def main() -> None:
    """Run the file's checks in the order of their names' appearance."""
    path, url, unavailable_url = sys.argv[1:]
    results: dict[str, str | None] = {}
    for name, check in runpy.run_path(path).items():
        if not name.startswith("check_"):
            continue
        try:
            check(url, unavailable_url)
            results[name] = None
        except Exception:  # noqa: BLE001  the test reports any exception
            results[name] = traceback.format_exc()
    sys.stdout.write("\n" + json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
