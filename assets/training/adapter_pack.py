"""Pack the body of a GGUF model, to train an adapter on another machine.

    python adapter_pack.py tokenizer MODEL.gguf OUT.json               # the file's tokenizer, for `tokenizers`
    python adapter_pack.py pack MODEL.gguf VOCAB.npy OUT [--piece 60]  # pieces of at most 60 MB

The tensors travel as the file stores them, so the adapter learns on exactly the weights that users run. Of
the embeddings only the rows in VOCAB.npy go along (`adapter_data.py vocab`). `load` puts the pieces together
again, dequantised, with the names and the row order of Hugging Face.
"""
import argparse
import json
import os

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, dequantize

import gguf_model
from gguf_model import field
from to_gguf import unpermute

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTROL, USER_DEFINED = 3, 4
INDEX = "index.json"


# ---------------------------------------------------------------- tokenizer
def prepare(tok, kind):
    """Sets the first steps of a tokenizer, by the file's name for them."""
    from tokenizers import Regex, normalizers
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split
    if kind == "qwen2":
        tok.normalizer = normalizers.NFC()
        split = Split(Regex(QWEN_SPLIT), "isolated")
        tok.pre_tokenizer = Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])
    elif kind == "smollm":
        tok.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    else:
        raise SystemExit(f"the pre-tokenizer {kind} is unknown")


def tokenizer(path, out):
    """Writes the tokenizer of a file."""
    from tokenizers import AddedToken, Tokenizer, decoders, models
    r = GGUFReader(path)
    tokens, merges, kinds, pre = (
        field(r, f"tokenizer.ggml.{n}") for n in ("tokens", "merges", "token_type", "pre"))
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    prepare(tok, pre)
    tok.decoder = decoders.ByteLevel()
    for wanted, special in ((CONTROL, True), (USER_DEFINED, False)):
        some = [AddedToken(t, normalized=False, special=special) for t, k in zip(tokens, kinds) if k == wanted]
        tok.add_special_tokens(some) if special else tok.add_tokens(some)
    assert all(tok.token_to_id(t) == i for i, t in enumerate(tokens))
    os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
    tok.save(out, pretty=False)


# ---------------------------------------------------------------- pieces
def entries(reader, c, rows):
    """(entry of the index, bytes) of each tensor."""
    names = {t.name for t in reader.tensors}
    for t in reader.tensors:
        data = np.asarray(t.data)
        if t.name == "token_embd.weight" and "output.weight" in names:
            continue  # the same numbers as the head's, in fewer bits: the head's rows serve as both
        if t.name in ("token_embd.weight", "output.weight"):
            data, name = data[rows], "embed"
        else:
            name = gguf_model.hf_name(t.name)
            heads = gguf_model.paired_heads(c, name.rsplit(".", 1)[0])
            data = unpermute(data, heads) if heads else data
        data = np.ascontiguousarray(data)
        kind = dict(type=t.tensor_type.name, shape=list(data.shape), dtype=str(data.dtype), bytes=data.nbytes)
        yield dict(name=name, **kind), data.tobytes()


def pack(path, vocab, out, piece):
    reader, rows = GGUFReader(path), np.load(vocab)
    c = gguf_model.config(reader)
    index, blobs = zip(*entries(reader, c, rows))
    stream, size = b"".join(blobs), piece * 1_000_000
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, INDEX), "w") as f:
        json.dump(dict(config={**c, "rows": len(rows)}, tensors=index, bytes=len(stream)), f)
    for i in range(0, len(stream), size):
        with open(os.path.join(out, f"piece{i // size:02d}"), "wb") as f:
            f.write(stream[i:i + size])
    print(out, len(stream), "bytes,", -(-len(stream) // size), "pieces;", c)


def pieces(folder):
    return sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.startswith("piece"))


def index_of(folder):
    """The index of a folder, or None where it is not there yet."""
    try:
        with open(os.path.join(folder, INDEX)) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def complete(folder):
    """Whether all pieces have arrived."""
    index = index_of(folder)
    return index is not None and sum(map(os.path.getsize, pieces(folder))) == index["bytes"]


def load(folder):
    """(configuration, {name: float32 array}) of a folder with all its pieces."""
    index, stream = index_of(folder), bytearray()
    for path in pieces(folder):
        with open(path, "rb") as f:
            stream += f.read()
    assert len(stream) == index["bytes"], (len(stream), index["bytes"])
    out, at = {}, 0
    for e in index["tensors"]:
        kind = np.dtype(e["dtype"])
        data = np.frombuffer(stream, kind, e["bytes"] // kind.itemsize, at).reshape(e["shape"])
        at += e["bytes"]
        out[e["name"]] = np.array(dequantize(data, GGMLQuantizationType[e["type"]]), np.float32)
    return index["config"], out


def main():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="what", required=True)
    t = sub.add_parser("tokenizer")
    t.add_argument("model")
    t.add_argument("out")
    k = sub.add_parser("pack")
    k.add_argument("model")
    k.add_argument("vocab")
    k.add_argument("out")
    k.add_argument("--piece", type=int, default=60, help="most megabytes of a piece")
    a = p.parse_args()
    tokenizer(a.model, a.out) if a.what == "tokenizer" else pack(a.model, a.vocab, a.out, a.piece)


if __name__ == "__main__":
    main()
