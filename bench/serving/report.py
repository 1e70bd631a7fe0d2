"""Print measurements as Markdown tables, and plot them.

`python -m bench.serving.report RESULTS… [--plot FILE]` prints the tables of the rounds in these files.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from bench.serving.plot import plot
from bench.serving.scenarios import SCENARIOS

Record = dict[str, Any]  # model, scenario, case, server, round, numbers
MOST_ELSEWHERE = 0.05  # the largest share of all cores' time used by other processes in a valid measurement
UNITS = {"_per_s": 1.0, "_s": 1e3}  # seconds are printed as milliseconds


def tables(records: list[Record]) -> str:
    """Return a table per model and scenario, with one row per case and server.

    Numbers are medians over the rounds, times in milliseconds. The last column is the ratio of the first server's
    number to this server's in the same round, inverted for times and memory, so that the first server is better above
    1; it is the median over the rounds, with the minimum and the maximum.
    """
    lines: list[str] = []
    first = records[0]["server"]
    measured, records = records, [record for record in records if record["others"] <= MOST_ELSEWHERE]
    if len(records) < len(measured):
        lines += ["", f"{len(measured) - len(records)} of {len(measured)} measurements left out because of other load"]
    for model, scenario in dict.fromkeys((record["model"], record["scenario"]) for record in records):
        chosen = [record for record in records if (record["model"], record["scenario"]) == (model, scenario)]
        numbers = SCENARIOS[scenario].numbers
        lines += ["", f"{model}, {scenario}, {len({record['round'] for record in chosen})} rounds", ""]
        lines += ["| " + " | ".join(["case", "server", *map(heading, numbers), "ratio"]) + " |"]
        lines += ["|---|---|" + "--:|" * (len(numbers) + 1)]
        for case in dict.fromkeys(case_text(record) for record in chosen):
            of_case = [record for record in chosen if case_text(record) == case]
            for server in dict.fromkeys(record["server"] for record in of_case):
                rounds = [record["numbers"] for record in of_case if record["server"] == server]
                medians = {name: statistics.median(each[name] for each in rounds) for name in numbers}
                values = [number_text(medians[name] * unit(name)) for name in numbers]
                lines += [
                    "| " + " | ".join([case, server, *values, ratio_text(of_case, first, server, numbers[0])]) + " |"
                ]
    return "\n".join(lines)


def ratios(of_case: list[Record], first: str, server: str, number: str) -> list[float]:
    """Return, for each round, the first server's number divided by another's, inverted if less is better."""
    by_round = {(each["server"], each["round"]): each["numbers"][number] for each in of_case}
    rounds = [turn for name, turn in by_round if name == server and (first, turn) in by_round]
    pairs = [(by_round[first, turn], by_round[server, turn]) for turn in rounds]
    less_is_better = not number.endswith("_per_s")
    return [theirs / ours if less_is_better else ours / theirs for ours, theirs in pairs if ours and theirs]


def ratio_text(of_case: list[Record], first: str, server: str, number: str) -> str:
    """Return the median of the ratios and their range."""
    found = ratios(of_case, first, server, number)
    if not found or server == first:
        return ""
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def case_text(record: Record) -> str:
    """Return a record's case as text, such as `prompt 32, streams 4`."""
    return ", ".join(f"{name} {value:g}" for name, value in record["case"].items()) or "all"


def number_text(value: float) -> str:
    """Return a value with four significant digits, and all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def unit(number: str) -> float:
    return next((factor for ending, factor in UNITS.items() if number.endswith(ending)), 1.0)


def heading(number: str) -> str:
    """Return a number's heading, such as `first token 95 % ms`."""
    text = number.replace("_per_s", "/s").replace("_p95", " 95 %").replace("_", " ")
    return text.removesuffix(" s") + " ms" if text.endswith(" s") else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--plot", type=Path, help="an SVG file to write")
    options = parser.parse_args()
    records = [record for path in options.results for record in json.loads(path.read_text())]
    print(tables(records))
    if options.plot:
        options.plot.write_text(plot(records))


if __name__ == "__main__":
    main()
