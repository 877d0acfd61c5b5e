"""Runs the tests of XGrammar against `ffwd.compat.xgrammar`, from its source package.

    python bench/upstream_tests.py FOLDER     # FOLDER/test_*.py, used in place

The tests import `xgrammar`, and get `ffwd.compat.xgrammar`. The result is a
table by file: passed, failed and skipped tests, and the most frequent reasons. Without the folder
it says so and ends. Tests that fetch a tokenizer from a hub are counted on their own.

Many tests first compare the printed form of a grammar, which this engine does not have,
and then what the grammar accepts. With `--behaviour` the comparison is left out.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HUB = re.compile(
    r"OSError|offline|huggingface|Can't load|gated|hf_token|HF_TOKEN|LocalEntryNotFound|"
    r"not the path to a directory|no file|ConnectionError|Max retries"
)
RESULTS = "FFWD_UPSTREAM_RESULTS"
BEHAVIOUR = "FFWD_UPSTREAM_BEHAVIOUR"
# The functions of the tests that compare printed grammars and nothing else.
PRINTED = ("check_stag_with_grammar", "check_grammar_with_expected_grammar")


class Aliases(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `ffwd.compat.xgrammar` under the name `xgrammar`."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "xgrammar":
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        return importlib.import_module(f"ffwd.compat.{spec.name}")

    def exec_module(self, module):
        """Nothing: the module was imported under its own name."""


# As a plugin of pytest, in the process that runs the tests.
if os.environ.get(RESULTS):
    sys.meta_path.insert(0, Aliases())

    def _write(file, outcome, reason):
        with open(os.environ[RESULTS], "a") as results:
            print(json.dumps([Path(file).name, outcome, reason]), file=results)

    def pytest_collection_modifyitems(items):
        if os.environ.get(BEHAVIOUR):
            for module in {item.module for item in items}:
                for name in PRINTED:
                    if hasattr(module, name):
                        setattr(module, name, lambda *_arguments, **_options: None)

    def pytest_collectreport(report):
        if report.failed:
            _write(report.nodeid, "not collected", _reason(report))

    def pytest_runtest_logreport(report):
        if report.when == "call" or report.outcome != "passed":
            _write(report.nodeid.split("::")[0], report.outcome, _reason(report))


def _reason(report) -> str:
    """The line that says why a test failed or was skipped."""
    text = report.longrepr
    if isinstance(text, tuple):
        return text[-1]
    crash = getattr(getattr(text, "reprcrash", None), "message", "") or str(text or "")
    lines = [line for line in crash.splitlines() if line.strip()]
    return lines[0][:160] if lines else ""


def table(results: list[list[str]]) -> list[str]:
    """Return the rows of a Markdown table."""
    files: dict[str, collections.Counter] = {}
    for file, outcome, reason in results:
        hub = outcome != "passed" and HUB.search(reason)
        files.setdefault(file, collections.Counter())["hub" if hub else outcome] += 1
    files["all"] = sum(files.values(), collections.Counter())
    columns = ["passed", "failed", "skipped", "hub", "not collected"]
    rows = [f"| file | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
    for file, counts in files.items():
        rows.append(f"| `{file}` | " + " | ".join(str(counts[name]) for name in columns) + " |")
    return rows


def main() -> None:
    """Run the tests of a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--behaviour", action="store_true", help="leave out comparisons of printed grammars"
    )
    parser.add_argument("--reasons", type=int, default=0, help="print the N most frequent reasons")
    parser.add_argument(
        "arguments",
        nargs="*",
        help="files of the folder; default all, and arguments for pytest after --",
    )
    options = parser.parse_intermixed_args()
    if not any(options.folder.glob("test_*.py")):
        raise SystemExit(
            f"{options.folder} has no test_*.py; unpack the source package of XGrammar "
            "and name the folder of its Python tests"
        )
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        paths = [str(here), str(options.folder), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            RESULTS: str(results),
            "PYTHONPATH": os.pathsep.join(paths),
            "HF_HUB_OFFLINE": "1",
            BEHAVIOUR: "1" if options.behaviour else "",
        }
        pytest = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--no-header",
            "--tb=no",
            "-p",
            here_plugin(),
        ]
        pytest += [
            "--continue-on-collection-errors",
            "-o",
            "addopts=",
            "-p",
            "no:cacheprovider",
            *(options.arguments or ["."]),
        ]
        subprocess.run(
            pytest, cwd=options.folder, env=environment, check=False, stdout=subprocess.DEVNULL
        )
        rows = [json.loads(line) for line in results.read_text().splitlines()]
    print("\n".join(table(rows)))
    reasons = collections.Counter(
        (file, outcome, reason) for file, outcome, reason in rows if outcome != "passed"
    )
    for (file, outcome, reason), count in reasons.most_common(options.reasons):
        print(f"{count:5} {file} {outcome}: {reason}")


def here_plugin() -> str:
    """Return the name of this file as a plugin."""
    return Path(__file__).stem


if __name__ == "__main__":
    main()
