"""What the file of a GGUF model says: its configuration, and its names and rows as Hugging Face has them."""
from to_gguf import NAMES

PARTS = {part: module for module, part in NAMES.items()}


def field(reader, name):
    return reader.fields[name].contents()


def config(reader):
    """The configuration of the architectures `llama` and `qwen2`."""
    arch = field(reader, "general.architecture")
    if arch not in ("llama", "qwen2"):
        raise SystemExit(f"the architecture {arch} is unknown")
    get = lambda n: field(reader, f"{arch}.{n}")
    return dict(
        arch=arch, layers=get("block_count"), width=get("embedding_length"), ffn=get("feed_forward_length"),
        heads=get("attention.head_count"), kv=get("attention.head_count_kv"), theta=get("rope.freq_base"),
        eps=get("attention.layer_norm_rms_epsilon"), vocab=len(reader.fields["tokenizer.ggml.tokens"].data))


def hf_name(name):
    """The name that Hugging Face has for a tensor, without `model.`."""
    if not name.startswith("blk."):
        return {"token_embd.weight": "embed", "output.weight": "head", "output_norm.weight": "norm"}[name]
    _, layer, part, kind = name.split(".")
    return f"layers.{layer}.{PARTS[part]}.{kind}"


def module_of(name):
    """(layer, module) of a matrix that an adapter may change, otherwise None."""
    if not (name.startswith("blk.") and name.endswith(".weight")) or "norm" in name:
        return None
    _, layer, part, _ = name.split(".")
    return (int(layer), PARTS[part]) if part in PARTS else None


def paired_heads(c, module):
    """Heads whose rows GGUF pairs: those of q and k of the architecture `llama`. Otherwise None."""
    if c["arch"] != "llama":
        return None
    return {"q_proj": c["heads"], "k_proj": c["kv"]}.get(module.split(".")[-1])


def check_shapes(path, tensors, modules):
    """Every module of an adapter must have its matrix in the file, of the same size."""
    shapes = {module_of(t.name): tuple(int(n) for n in reversed(t.shape)) for t in tensors}
    for key, m in modules.items():
        found, wanted = shapes.get(key), (m.b.shape[0], m.a.shape[1])
        if found != wanted:
            raise SystemExit(f"{path}: {m.module} of layer {m.layer} is {found}, the adapter has {wanted}")


def finish(writer):
    """Writes the file of a GGUFWriter."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
