#!/usr/bin/env python3
"""Print the error of the estimates of `ffwd explain`, from results of `ffwd bench decode --json`.

    benches/estimate_error.py FILE.json...
"""

import json
import sys


def errors(report):
    """Yields the name of an estimate and its distance from the measurement."""
    for scenario in report["scenarios"]:
        estimate = scenario["estimate"]
        arms = {arm["arm"]: arm for arm in scenario["arms"]}
        if estimate is None:
            continue
        yield "tokens", estimate["tokens"]["median"], arms["off"]["tokens"]
        yield "forced share", estimate["fraction"]["median"], scenario["fraction"]
        yield "tokens a forward, forced runs", (
            estimate["off"]["forwards"] / estimate["forced"]["forwards"]
        ), arms["forced"]["tokens"] / arms["forced"]["forwards"]
        for name, way, arm in [
            ("speedup, forced runs alone", "forced", "forced"),
            ("speedup, `exact`", "copies", "exact"),
        ]:
            yield name, estimate[way]["speedup"], arms[arm]["decoding_speedup"]["median"]


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    columns, names = [], []
    for file in sys.argv[1:]:
        with open(file) as text:
            report = json.load(text)
        found = {}
        for name, expected, measured in errors(report):
            found.setdefault(name, []).append(abs(expected - measured) / measured)
            if name not in names:
                names.append(name)
        columns.append((report["about"]["model"], found))
    print("|".join(["", "estimate", *(model for model, _ in columns), ""]))
    print("|---|" + "---|" * len(columns))
    for name in names:
        cells = (f"{100 * sum(found[name]) / len(found[name]):.0f} %" for _, found in columns)
        print("|".join(["", name, *cells, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
