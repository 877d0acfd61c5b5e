#!/usr/bin/env python3
"""Put a measured table between its comments in docs/benchmarks.md, or keep some of its rows.

    benches/put_table.py NAME FILE.md
    benches/put_table.py NAME --keep PATTERN   # rows that a regular expression finds, and the head
"""

import pathlib
import re
import sys


def kept(table, pattern):
    rows = table.strip().split("\n")
    found = [row for row in rows[2:] if re.search(pattern, row)]
    return "\n".join([*rows[:2], *found])


def main() -> int:
    if len(sys.argv) not in (3, 4) or (len(sys.argv) == 4 and sys.argv[2] != "--keep"):
        print(__doc__, file=sys.stderr)
        return 2
    name, given = sys.argv[1], sys.argv[-1]
    page = pathlib.Path(__file__).parent.parent / "docs" / "benchmarks.md"
    begin, end = f"<!-- measured: {name} -->", f"<!-- end of {name} -->"
    text = page.read_text()
    if text.count(begin) != 1 or text.count(end) != 1:
        print(f"error: {page} has no table {name}", file=sys.stderr)
        return 1
    before, rest = text.split(begin)
    table, after = rest.split(end)
    if len(sys.argv) == 4:
        table = kept(table, given)
    else:
        table = pathlib.Path(given).read_text().strip()
        if table.startswith("- machine"):  # a whole report of `ffwd bench --markdown`
            table = table[table.index("|") :]
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
