"""Merge an adapter into a GGUF model.

    python adapter_merge.py MODEL.gguf ADAPTER_FOLDER OUT.gguf [--type Q8_0]

Every matrix that the adapter changes becomes W + scale * B A and is written in --type; all others stay as
they are stored. --type same writes each in its own type where the gguf package can write that, otherwise in
Q8_0.
"""
import argparse
import os

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, dequantize, quantize

import adapter_folder
import gguf_model
from to_gguf import permute

WRITTEN = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "F32", "BF16")


def type_of(stored, wanted):
    """The type that a changed matrix gets."""
    if wanted != "same":
        return Type[wanted]
    return stored if stored.name in WRITTEN else Type.Q8_0


def copy_metadata(reader, w, wanted):
    for f in reader.fields.values():
        if f.name.startswith("GGUF.") or f.name == "general.architecture":
            continue
        value, kind = f.contents(), f.types[0]
        if f.name == "general.file_type" and "MOSTLY_" + wanted in LlamaFileType.__members__:
            value = int(LlamaFileType["MOSTLY_" + wanted])
        w.add_key_value(f.name, value, kind, f.types[-1] if kind == GGUFValueType.ARRAY else None)


def merged(c, t, m):
    """A matrix with the adapter's change, in float32."""
    delta, heads = m.delta(), gguf_model.paired_heads(c, m.module)
    return dequantize(t.data, t.tensor_type).astype(np.float32) + (permute(delta, heads) if heads else delta)


def merge(model, folder, out, wanted="Q8_0"):
    """Writes the merged model."""
    reader = GGUFReader(model)
    c, (_, modules) = gguf_model.config(reader), adapter_folder.read(folder)
    gguf_model.check_shapes(model, reader.tensors, modules)
    w = GGUFWriter(out, c["arch"])
    copy_metadata(reader, w, wanted)
    for t in reader.tensors:
        m, data, kind = modules.get(gguf_model.module_of(t.name)), np.asarray(t.data), t.tensor_type
        if m:
            kind = type_of(kind, wanted)
            data = quantize(merged(c, t, m), kind)
        w.add_tensor(t.name, data, raw_dtype=kind)
    gguf_model.finish(w)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("adapter")
    p.add_argument("out")
    p.add_argument("--type", default="Q8_0", choices=[*WRITTEN, "same"])
    a = p.parse_args()
    merge(a.model, a.adapter, a.out, a.type)
    print(a.out, os.path.getsize(a.out), "bytes")


if __name__ == "__main__":
    main()
