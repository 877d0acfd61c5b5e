"""Writes the pictures of the documentation: screenshots with few colours, which are small."""

import sys
from pathlib import Path

from PIL import Image

PICTURES = ["playground-generate", "playground-automaton"]
MOST_BYTES = 150_000

shots, pictures = map(Path, sys.argv[1:])
for name in PICTURES:
    written = pictures / f"{name}.png"
    image = Image.open(shots / f"{name}.png").convert("RGB")
    image.quantize(64).save(written, optimize=True)
    size = written.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"{written} has {size} bytes")
