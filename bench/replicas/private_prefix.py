"""Test whether the time to a first token reveals another key's prompts: prompts of another key versus new prompts.

Run as `python -m bench.replicas.private_prefix [--rounds N]`. The whole product runs on the bundled model and is called
through Envoy. In each round one key sends a prompt; then another key sends the same prompt and a new one, in random
order, and each time to the first token is measured. The area under the curve (AUC) is the probability that a new prompt
took longer: 0.5 is chance, and 1 is certainty. For comparison, the same is measured for the first key's own second
request.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

from bench import shapes
from bench.replicas.overload import make_keys
from bench.serving.requests import LOAD
from bench.serving.servers import ROOT, Server, command_of, serving
from cli.bench.prompts import WORDS

NUM_WORDS = 600
TOKENS = 2
NEW, OTHERS, OWN = "new", "another's", "its own"


def first_token_s(server: Server, prompt: str, key: str) -> float:
    """Return the seconds from the request to the first text."""
    body = {"model": "bench", "stream": True, "max_tokens": TOKENS, "temperature": 0}
    body |= {"stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": prompt}]}
    job = json.dumps({"port": server.command.port, "requests": [{"at": 0.0, "body": body, "key": key}]})
    done = subprocess.run(LOAD, input=job, capture_output=True, text=True, check=True, cwd=ROOT)
    (answer,) = json.loads(done.stdout)
    return float(answer["received"][0] - answer["sent"])


def auc(new: list[float], known: list[float]) -> float:
    """Return the probability that a time of `new` is longer than one of `known`."""
    wins = sum((a > b) + 0.5 * (a == b) for a in new for b in known)
    return wins / (len(new) * len(known))


def main() -> None:
    """Print both areas."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    draw = random.Random(5)
    with tempfile.TemporaryDirectory(prefix="sluice-prefix-") as folder:
        keys = make_keys(Path(folder))
        settings = f"sluice:auth.keys_file={folder}/keys.yaml"
        with serving(command_of(settings, shapes.demo_without_end(), 0)) as server:
            times: dict[str, list[float]] = {NEW: [], OTHERS: [], OWN: []}
            for index in range(options.rounds + 5):
                said, new = (" ".join(draw.choices(WORDS, k=NUM_WORDS)) for _ in range(2))
                first_token_s(server, said, keys["flood"])
                asked = [(OTHERS, said, "polite"), (NEW, new, "polite")]
                draw.shuffle(asked)
                found = {name: first_token_s(server, prompt, keys[caller]) for name, prompt, caller in asked}
                found[OWN] = first_token_s(server, said, keys["flood"])
                for name, seconds in found.items() if index >= 5 else ():  # the first ones warm up
                    times[name].append(seconds)
    medians = ", ".join(f"{name} {1e3 * statistics.median(each):.1f}" for name, each in times.items())
    print(f"{options.rounds} rounds, medians of the first token in ms: {medians}")
    areas = ", ".join(f"{name} {auc(times[NEW], times[name]):.3f}" for name in (OTHERS, OWN))
    print(f"AUC: {areas}")


if __name__ == "__main__":
    main()
