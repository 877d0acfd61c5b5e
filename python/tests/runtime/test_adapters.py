"""Adapters of models, and models with a name."""

import json
import os
import struct
from pathlib import Path

import pytest

import ffwd

from .conftest import ROOT, run_program

RANK, WIDTH, FEED = 4, 256, 768


def write_adapter(folder: Path, number: float) -> None:
    """A change of one matrix of the embedded model, in PEFT's format."""
    folder.mkdir()
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "target_modules": ["up_proj"]}
    config["layers_to_transform"] = [2]
    (folder / "adapter_config.json").write_text(json.dumps(config))
    name = "base_model.model.model.layers.2.mlp.up_proj.lora_{}.weight"
    middle, end = RANK * WIDTH * 4, RANK * (WIDTH + FEED) * 4
    header = {
        name.format("A"): {"dtype": "F32", "shape": [RANK, WIDTH], "data_offsets": [0, middle]},
        name.format("B"): {"dtype": "F32", "shape": [FEED, RANK], "data_offsets": [middle, end]},
    }
    text = json.dumps(header).encode()
    numbers = [number * (i % 7 - 3) for i in range(RANK * (WIDTH + FEED))]
    data = struct.pack("<Q", len(text)) + text + struct.pack(f"<{len(numbers)}f", *numbers)
    (folder / "adapter_model.safetensors").write_bytes(data)


def test_an_adapter_gives_what_the_program_gives(tmp_path):
    folder = tmp_path / "adapter"
    write_adapter(folder, 0.3)
    regex = "[a-z ]{30}"

    def text(adapter):
        engine = ffwd.Engine(adapter=adapter)
        return engine.generate("Write: ", constraint=ffwd.Constraint.regex(regex)).text

    plain, adapted = text(None), text(folder)
    assert plain != adapted
    assert text(f"{folder}:0") == plain
    option = ["generate", "Write: ", "--regex", regex, "--adapter", folder]
    assert run_program(*option).rstrip("\n") == adapted
    with pytest.raises(ffwd.Error, match="layers.2.mlp.up_proj"):
        write_adapter(tmp_path / "bad", float("nan"))
        ffwd.Engine(adapter=tmp_path / "bad")


def test_a_name_finds_its_adapter_in_the_package(tmp_path, monkeypatch):
    import ffwd_runtime

    files = Path(ffwd_runtime.__file__).parent / "adapters"
    assert {file.name for file in files.iterdir()} == {
        "extract-smollm2-135m.gguf",
        "extract-qwen2.5-coder-0.5b.gguf",
    }
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("FFWD_MODELS_DIR", str(tmp_path))
    with pytest.raises(ffwd.Error, match="SmolLM2-135M-Instruct.Q4_1.gguf"):
        ffwd.Engine("small")


def test_the_small_model_extracts(monkeypatch):
    folder = os.environ.get("FFWD_REAL_MODELS", "")
    if not (Path(folder) / "SmolLM2-135M-Instruct.Q4_1.gguf").is_file():
        pytest.skip("no real weights")
    monkeypatch.setenv("FFWD_MODELS_DIR", folder)
    data = ROOT / "examples" / "data"
    schema = json.loads((data / "invoice.schema.json").read_text())
    record = ffwd.Engine("small").extract((data / "invoice.txt").read_text(), schema)
    assert record["invoice_number"] == "INV-20417" and record["total"] == 1840
