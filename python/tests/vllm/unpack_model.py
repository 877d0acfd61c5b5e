"""Writes the weights of a GGUF file as a folder of transformers, in bfloat16.

    python unpack_model.py FILE.gguf FOLDER

Needs torch, transformers, gguf and accelerate.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def main() -> None:
    """Convert the file that is named first into the folder that is named second."""
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    place, name = str(source.parent), source.name
    tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(
        place,
        gguf_file=name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    # The tokenizer comes last: its file says that the folder is complete.
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
