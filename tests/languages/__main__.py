"""Count the languages that stream, cancel and decode errors through Envoy: python -m tests.languages [NAME...]."""

from __future__ import annotations

import sys

from tests.e2e.stack import Stack
from tests.languages.example import EXAMPLES, ExampleError, expected_answer, faults


def main(*names: str) -> int:
    """Run all examples, or the named ones, and print each result. Return 0 if all pass."""
    chosen = [each for each in EXAMPLES if not names or each.name in names]
    good = []
    stack = Stack()
    try:
        stack.wait_for("sluice is ready.")
        answer = expected_answer(stack.url)
        for example in chosen:
            if lacking := example.missing():
                print(f"{example.name:12} is missing {', '.join(lacking)}", flush=True)
                continue
            try:
                wrong = faults(example.run(stack.url.removeprefix("http://")), answer)
            except ExampleError as error:
                print(error)
                wrong = ["runs"]
            if not wrong:
                good.append(example.name)
            print(
                f"{example.name:12} {'streams, cancels, decodes errors' if not wrong else f'fails: {wrong}'}",
                flush=True,
            )
    finally:
        stack.stop()
    print(f"{len(good)} of {len(chosen)} languages stream, cancel and decode errors through Envoy: {', '.join(good)}")
    return int(len(good) < len(chosen))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
