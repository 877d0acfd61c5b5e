#!/usr/bin/env python3
"""Put the Markdown of a file between the comments of a measured table in docs/benchmarks.md.

    benches/put_table.py NAME FILE.md
"""

import pathlib
import sys


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    name, file = sys.argv[1:]
    page = pathlib.Path(__file__).parent.parent / "docs" / "benchmarks.md"
    begin, end = f"<!-- measured: {name} -->", f"<!-- end of {name} -->"
    text = page.read_text()
    if text.count(begin) != 1 or text.count(end) != 1:
        print(f"error: {page} has no table {name}", file=sys.stderr)
        return 1
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    table = pathlib.Path(file).read_text().strip()
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
