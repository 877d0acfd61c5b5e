#!/usr/bin/env python3
"""Shorten the results of `ffwd bench`, and print the tables of docs/benchmarks.md from them.

    benches/record.py shorten FILE.json...    # keep medians and quartiles, one arm a line
    benches/record.py decode FILE.json        # `exact` beside `off`, one scenario a line
    benches/record.py fraction FILE.json      # the speedup by the share of forced tokens
    benches/record.py masks FILE.json         # judgements and times, one engine a column
    benches/record.py grammars FILE.json      # llguidance's times as multiples of ffwd's
"""

import json
import statistics
import sys


def short(number):
    """Three significant digits, as `ffwd bench` prints them."""
    digits = next((digits for least, digits in [(99.95, 0), (9.995, 1), (0.9995, 2)] if abs(number) >= least), 3)
    return f"{number:.{digits}f}"


def lines(value, indent=""):
    """JSON with one line for each object that holds no list of objects."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(holds_objects(part) for part in inner) and not is_objects(value):
        return json.dumps(value, ensure_ascii=False)
    deeper = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {lines(part, deeper)}" for key, part in value.items()]
    else:
        parts = [lines(part, deeper) for part in value]
    ends = "{}" if isinstance(value, dict) else "[]"
    return ends[0] + "\n" + ",\n".join(deeper + part for part in parts) + "\n" + indent + ends[1]


def is_objects(value):
    return isinstance(value, list) and any(isinstance(part, dict) for part in value)


def holds_objects(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return is_objects(value) or any(holds_objects(part) for part in inner)


def shorten(files):
    for file in files:
        with open(file) as text:
            report = json.load(text)
        for scenario in report.get("scenarios", []):
            for arm in scenario["arms"]:
                arm["samples"] = []  # `ffwd bench decode --compare` needs the field, not the times
        for engine in report.get("engines", []):
            for times in engine.values():
                if isinstance(times, dict):
                    times.pop("curve", None)  # only the plot needs it
        with open(file, "w") as text:
            text.write(lines(report) + "\n")


def about(report):
    about = report["about"]
    threads = f"{about['threads']} thread{'s' * (about['threads'] != 1)}"
    parts = [about["processor"], threads, about["date"], f"ffwd {about['version']}", about["model"]]
    return ", ".join(part for part in parts if part)


def table(header, rows):
    for cells in [header, ["---"] * len(header), *rows]:
        print("|" + "|".join(cells) + "|")


def arms(part):
    return {arm["arm"]: arm for arm in part["arms"]}


def same(found):
    """Says whether arms wrote the texts of `off`."""
    if all(arm["same_text"] for arm in found):
        return "all texts are those of `off`"
    return "some texts are not those of `off`"


def decode(report):
    pairs = [(arms(scenario)["off"], arms(scenario)["exact"]) for scenario in report["scenarios"]]
    print(f"{about(report)}; {same([exact for _, exact in pairs])}\n")
    rows = []
    for scenario, (off, exact) in zip(report["scenarios"], pairs):
        rows.append([
            scenario["name"], str(off["tokens"]),
            *(short(1000 * arm["seconds"]["median"]) for arm in (off, exact)),
            short(exact["speedup"]["median"]), short(exact["decoding_speedup"]["median"]),
            short(exact["tokens"] / exact["forwards"]),
        ])
    table(["scenario", "tokens", "`off`, ms", "`exact`, ms", "against `off`", "decoding alone",
           "tokens a forward"], rows)


def fraction(report):
    rows = []
    points = [*report["points"], *([report["schema"]] if report.get("schema") else [])]
    print(f"{about(report)}; {same([arms(point)[arm] for point in points for arm in ('exact', 'forced')])}\n")
    for point in points:
        found, ceilings = arms(point), point.get("ceilings")
        limits = [short(ceilings[name]) for name in ("measured_rows", "free_rows")] if ceilings else ["-", "-"]
        label = short(point["fraction"]) + ("" if ceilings else " (own schema)")
        speedups = [short(found[arm]["speedup"]["median"]) for arm in ("exact", "forced")]
        rows.append([label, *speedups, *limits])
    table(["fraction", "`exact`", "forced runs", "ceiling", "1/(1-f)"], rows)
    costs = [(rows, ms) for rows, ms in report["costs"]["points"] if rows in (1, 2, 4, 8, 16, 25)]
    print()
    table(["rows of a forward", *(str(rows) for rows, _ in costs)], [["ms", *(short(ms) for _, ms in costs)]])


def masks(report):
    def times(name, *which):
        return lambda engine: " / ".join(short(engine[name][part]) for part in which) + " µs"

    def held(engine):
        held = engine["bytes"]
        return " / ".join(short(held[part] / 1000) for part in ("median", "high")) if held else "-"

    rows = {
        "schemas passing": lambda e: f"{e['passing']} ({100 * e['passing'] / e['schemas']:.1f} %)",
        "refused": lambda e: str(e["refused"]),
        "instances wrongly refused / accepted": lambda e: f"{e['wrongly_refused']} / {e['wrongly_accepted']}",
        "where none refused: mask, average / median / p99": times("common_mask", "average", "p50", "p99"),
        "first mask, average / median / p99": times("common_first_mask", "average", "p50", "p99"),
        "mask of a known text, average / median": times("mask_again", "average", "p50"),
        "kB held by a grammar, median / upper quartile": held,
    }
    print(about(report) + "\n")
    engines = report["engines"]
    table(["", *(engine["engine"] for engine in engines)],
          [[name, *(cell(engine) for engine in engines)] for name, cell in rows.items()])


def grammars(report):
    print(about(report) + "\n")
    found = {}
    for result in report["results"]:
        found.setdefault(result["grammar"], {})[result["engine"]] = result
    names = ["first_mask_us", "cold_ms", "new_text_ms", "again_ms"]
    ratios = {
        grammar: [two["llguidance"][name]["median"] / two["ffwd"][name]["median"] for name in names]
        for grammar, two in found.items()
    }
    ratios["median"] = [statistics.median(column) for column in zip(*ratios.values())]
    rows = [[grammar, *map(short, values)] for grammar, values in ratios.items()]
    table(["llguidance / ffwd", "first mask", "cold", "new text", "again"], rows)


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] not in ("shorten", "decode", "fraction", "masks", "grammars"):
        print(__doc__, file=sys.stderr)
        return 2
    what, *files = sys.argv[1:]
    if what == "shorten":
        shorten(files)
        return 0
    with open(files[0]) as text:
        report = json.load(text)
    globals()[what](report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
