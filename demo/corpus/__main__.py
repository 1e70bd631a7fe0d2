"""Print training conversations, one JSON object per line: `python -m demo.corpus --seed 1 --count 5`."""

from __future__ import annotations

import argparse
import json
from itertools import islice

from demo.corpus.conversation import segments
from demo.corpus.mixture import conversations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5)
    options = parser.parse_args()
    for conversation in islice(conversations(options.seed), options.count):
        pieces = [{"text": text, "taught": taught} for text, taught in segments(conversation)]
        print(json.dumps({"pieces": pieces}, ensure_ascii=False))


if __name__ == "__main__":
    main()
