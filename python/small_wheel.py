"""Build the wheel `ffwd-llm-small`: the base of the model `small`, which `ffwd.Engine("small")` then finds.

    python small_wheel.py SmolLM2-135M-Instruct.Q4_1.gguf OUT_FOLDER

With it, `small` needs no network and no file besides packages. The base is licensed under Apache-2.0; its
adapter is in `ffwd-llm-runtime`. The wheel is not part of a release: an index may limit the size of a file.
"""

import argparse
import base64
import hashlib
import re
import zipfile
from pathlib import Path

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ROOT = Path(__file__).resolve().parents[1]


def version() -> str:
    """The version of the workspace."""
    found = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert found
    return found[1]


def build(base: Path, folder: Path) -> Path:
    """Write the wheel; return its path."""
    weights, number = base.read_bytes(), version()
    if hashlib.sha256(weights).hexdigest() != SHA256:
        raise SystemExit(f"{base} is not the {FILE} that was measured")
    info = f"ffwd_llm_small-{number}.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: ffwd-llm-small\nVersion: {number}\n"
    metadata += "Summary: The base of the model `small` of ffwd: SmolLM2-135M-Instruct\n"
    metadata += f"License-Expression: Apache-2.0\nRequires-Dist: ffwd-llm-runtime=={number}\n"
    files = {
        "ffwd_small/__init__.py": b'"""The base of the model `small` of ffwd; `ffwd.Engine` finds it."""\n',
        f"ffwd_small/{FILE}": weights,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: ffwd\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"ffwd_llm_small-{number}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("base", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    wheel = build(arguments.base, arguments.folder)
    print(wheel, wheel.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
