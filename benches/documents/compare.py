#!/usr/bin/env python3
"""Compares the words of PDFs with those of `pdftotext -layout`, and the time of reading them.

    python3 benches/documents/compare.py "target/release/ffwd text" FOLDER...
    python3 benches/documents/compare.py COMMAND FOLDER --copies 1000    # the time of so many calls

The command gets the name of a file, and writes its text with a form feed between pages. For each file: the
share of pdftotext's words that the command writes in the same order, page by page. Two words are the same
if they differ in white space only: `$ 12` and `$12` are.
"""
import argparse
import difflib
import shlex
import subprocess
import time
from pathlib import Path


def pages(command):
    done = subprocess.run(command, capture_output=True, timeout=300)
    text = done.stdout.decode(errors="replace")
    return text.removesuffix("\n").removesuffix("\f").split("\f")


def same(theirs, ours):
    """Returns the number of characters without white space, and of those that both have in one order."""
    a, b = theirs.split(), ours.split()
    total = sum(map(len, a))
    matched = sum(len("".join(a[m.a:m.a + m.size])) for m in difflib.SequenceMatcher(None, a, b, False).get_matching_blocks())
    # Words that are divided otherwise: compare what is left between the matches without white space.
    last = (0, 0)
    for m in difflib.SequenceMatcher(None, a, b, False).get_matching_blocks():
        left, right = "".join(a[last[0]:m.a]), "".join(b[last[1]:m.b])
        if left and right:
            inner = difflib.SequenceMatcher(None, left, right, False)
            matched += sum(x.size for x in inner.get_matching_blocks() if x.size > 1 or left == right)
        last = (m.a + m.size, m.b + m.size)
    return total, matched


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--copies", type=int, help="measure the time of so many calls instead")
    options = parser.parse_args()
    command = shlex.split(options.command)
    files = sorted(file for folder in options.folders for file in folder.rglob("*.pdf"))
    if options.copies:
        for name, call in (("pdftotext", lambda f: ["pdftotext", "-layout", f, "-"]), (command[0], lambda f: [*command, f])):
            start = time.perf_counter()
            for i in range(options.copies):
                subprocess.run(call(files[i % len(files)]), stdout=subprocess.DEVNULL, check=True)
            print(f"{name}: {time.perf_counter() - start:.2f} s for {options.copies} calls")
        return
    all_words = all_same = 0
    for file in files:
        theirs, ours = pages(["pdftotext", "-layout", file, "-"]), pages([*command, file])
        ours += [""] * (len(theirs) - len(ours))
        counts = [same(a, b) for a, b in zip(theirs, ours)]
        words, found = (sum(column) for column in zip(*counts))
        all_words, all_same = all_words + words, all_same + found
        print(f"{found / max(1, words):7.2%}  {len(theirs):4} pages  {file.name}")
    print(f"{all_same / max(1, all_words):7.2%}  of {all_words} characters in {len(files)} files")


if __name__ == "__main__":
    main()
