"""Tests of the scripts for adapters, with tiny random models, on a CPU.

    python -m pytest -q assets/training/test_adapters.py
"""
import json
import multiprocessing as mp
import os
import random
import signal
import sys
import types

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
for package in ("torch", "gguf", "safetensors", "tokenizers"):
    pytest.importorskip(package, reason=f"the scripts for adapters need {package}")

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from gguf import GGMLQuantizationType as Type  # noqa: E402
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

import adapter_data  # noqa: E402
import adapter_folder  # noqa: E402
import adapter_gguf  # noqa: E402
import adapter_merge  # noqa: E402
import adapter_pack  # noqa: E402
import adapter_train  # noqa: E402
import prose  # noqa: E402
import prose_tasks  # noqa: E402
import train  # noqa: E402
import workers  # noqa: E402
from generate import Gen  # noqa: E402

torch.set_num_threads(1)
WIDTH, FFN, HEADS, KV, LAYERS, RANK, NARROW = 64, 96, 4, 2, 2, 8, 4
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PARTS = {
    "attn_q": ("self_attn.q_proj", WIDTH, WIDTH), "attn_k": ("self_attn.k_proj", WIDTH // 2, WIDTH),
    "attn_v": ("self_attn.v_proj", WIDTH // 2, WIDTH), "attn_output": ("self_attn.o_proj", WIDTH, WIDTH),
    "ffn_gate": ("mlp.gate_proj", FFN, WIDTH), "ffn_up": ("mlp.up_proj", FFN, WIDTH),
    "ffn_down": ("mlp.down_proj", WIDTH, FFN),
}


# ---------------------------------------------------------------- a model
def vocabulary():
    """(tokens, merges) of a small BPE tokenizer of documents."""
    docs = adapter_data.Documents(1)
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = [AddedToken(s, special=True, normalized=False) for s in SPECIAL]
    texts = ["".join(docs.one()[1:]) for _ in range(60)]
    tok.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    merges = json.loads(tok.to_str())["model"]["merges"]
    return [tok.id_to_token(i) for i in range(tok.get_vocab_size())] + ["<tool_call>", "</tool_call>"], merges


def metadata(w, arch, tokens, merges):
    w.add_block_count(LAYERS)
    w.add_embedding_length(WIDTH)
    w.add_feed_forward_length(FFN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre({"llama": "smollm", "qwen2": "qwen2"}[arch])
    w.add_token_list(tokens)
    w.add_token_types([3 if t in SPECIAL else 4 if t.endswith("tool_call>") else 1 for t in tokens])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)


def write_model(path, arch, tokens, merges):
    """A random model with matrices in Q8_0."""
    r = np.random.default_rng(3)
    w = gguf.GGUFWriter(path, arch)
    metadata(w, arch, tokens, merges)

    def matrix(name, rows, inputs, spread=0.2):
        data = r.normal(0, spread, (rows, inputs)).astype(np.float32)
        w.add_tensor(name, gguf.quantize(data, Type.Q8_0), raw_dtype=Type.Q8_0)

    def vector(name, n, around=1.0):
        w.add_tensor(name, (around + r.normal(0, 0.1, n)).astype(np.float32))

    matrix("token_embd.weight", len(tokens), WIDTH, 0.5)
    vector("output_norm.weight", WIDTH)
    for i in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            vector(f"blk.{i}.{norm}.weight", WIDTH)
        for part, (module, rows, inputs) in PARTS.items():
            matrix(f"blk.{i}.{part}.weight", rows, inputs)
            if arch == "qwen2" and module.endswith(("q_proj", "k_proj", "v_proj")):
                vector(f"blk.{i}.{part}.bias", rows, 0.0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def command(module, *arguments):
    """Runs a script's `main` with arguments."""
    before, sys.argv = sys.argv, [module.__name__, *map(str, arguments)]
    try:
        module.main()
    finally:
        sys.argv = before


def unpaired(arch, part, rows):
    """Rows of a GGUF matrix as Hugging Face orders them, one by one."""
    heads = {"attn_q": HEADS, "attn_k": KV}.get(part)
    if arch != "llama" or not heads:
        return rows
    out, size = np.empty_like(rows), rows.shape[0] // heads
    for head in range(heads):
        for i in range(size):
            out[head * size + i % 2 * (size // 2) + i // 2] = rows[head * size + i]
    return out


def tensors(path):
    return {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}


@pytest.fixture(scope="module")
def words():
    return vocabulary()


@pytest.fixture(scope="module", params=["llama", "qwen2"])
def made(request, words, tmp_path_factory):
    """A model, its documents and an adapter, made by the commands of the README."""
    t = tmp_path_factory.mktemp(request.param)
    p = types.SimpleNamespace(arch=request.param, folder=str(t), model=str(t / "model.gguf"))
    p.tokenizer, p.vocab, p.held = (str(t / n) for n in ("tok.json", "vocab.npy", "held.npz"))
    p.packed, p.data, p.out = (str(t / n) for n in ("packed", "data", "out"))
    write_model(p.model, p.arch, *words)
    command(adapter_pack, "tokenizer", p.model, p.tokenizer)
    command(adapter_data, "vocab", p.tokenizer, p.vocab, "--count", 40, "--always", 300)
    command(adapter_data, "held-out", p.tokenizer, p.vocab, p.held, "--count", 6)
    command(adapter_pack, "pack", p.model, p.vocab, p.packed, "--piece", 1)
    command(
        adapter_data, "stream", p.data, "--model", "tiny", p.tokenizer, p.vocab, "--million", 0.001,
        "--workers", 1, "--shard", 60, "--tools-share", 0.2, "--call", "json")
    command(
        adapter_train, p.packed, p.data + "/tiny", p.out, "--held-out", p.held, "--base", "maker/tiny",
        "--steps", 6, "--tokens", 1024, "--rank", RANK, "--narrow", NARROW, "--lr", 5e-3, "--warmup", 1,
        "--device", "cpu")
    return p


# ---------------------------------------------------------------- tests
def test_tokenizer_gives_the_ids_of_the_file(made, words):
    tok = Tokenizer.from_file(made.tokenizer)
    text = "<|im_start|>user\nItem 12, naïve – 3.50<|im_end|>\n<tool_call>"
    ids = tok.encode(text).ids
    assert tok.decode(ids, skip_special_tokens=False) == text
    assert words[0][ids[0]] == "<|im_start|>" and words[0][ids[-1]] == "<tool_call>"


def test_packed_weights_are_those_of_the_file(made):
    c, packed = adapter_pack.load(made.packed)
    stored, rows = tensors(made.model), np.load(made.vocab)
    assert c["rows"] == len(rows) < c["vocab"]
    np.testing.assert_array_equal(packed["embed"], stored["token_embd.weight"][rows])
    for i in range(LAYERS):
        for part, (module, _, _) in PARTS.items():
            want = unpaired(made.arch, part, stored[f"blk.{i}.{part}.weight"])
            np.testing.assert_array_equal(packed[f"layers.{i}.{module}.weight"], want)


def test_loss_falls_on_a_batch(made):
    a = types.SimpleNamespace(
        rank=RANK, narrow=NARROW, scale=2.0, device="cpu", compile=False, lr=1e-2, warmup=1, tokens=1024)
    c, weights = adapter_pack.load(made.packed)
    torch.manual_seed(1)
    t = adapter_train.Training(a, c)
    t.m.fill(weights)
    docs = adapter_train.read(os.path.join(made.data, "tiny", "w100-0000.npz"))
    docs = sorted((d for d in docs if len(d[0]) <= 512), key=lambda d: -len(d[0]))[:2]
    batch = adapter_train.batch_of(docs, 512, 1024)
    before = t.loss(batch)[0].item()
    for _ in range(20):
        t.learn(batch, 0.0)
    after = t.loss(batch)[0].item()
    assert after < 0.7 * before, (before, after)


def test_training_writes_an_adapter_that_changes_something(made):
    c, modules = adapter_folder.read(made.out)
    assert c["base_model_name_or_path"] == "maker/tiny" and len(modules) == 7 * LAYERS
    assert {m.module.split(".")[1]: m.rank for m in modules.values()}["q_proj"] == NARROW
    assert all(m.scale == 2.0 and np.abs(m.delta()).max() > 0 for m in modules.values())
    with open(os.path.join(made.out, "training.json")) as f:
        assert "held out: loss" in json.load(f)["held_out"]


def test_merged_weights_are_the_sum(made):
    out = os.path.join(made.folder, "merged.gguf")
    adapter_merge.merge(made.model, made.out, out, "F32")
    before, after, (_, modules) = tensors(made.model), tensors(out), adapter_folder.read(made.out)
    assert before.keys() == after.keys()
    for name, w in before.items():
        part = name.split(".")[2] if name.endswith("weight") and name.startswith("blk.") else None
        if part not in PARTS:
            np.testing.assert_array_equal(after[name], w)
            continue
        m = modules[int(name.split(".")[1]), PARTS[part][0]]
        want = unpaired(made.arch, part, w) + 2.0 * m.b @ m.a
        np.testing.assert_allclose(unpaired(made.arch, part, after[name]), want, atol=1e-6)


def test_adapter_file_holds_the_adapter(made):
    out, rows = os.path.join(made.folder, "adapter.gguf"), np.load(made.vocab)
    command(adapter_gguf, made.model, made.out, out, "--rows", made.vocab)
    reader, (c, modules) = gguf.GGUFReader(out), adapter_folder.read(made.out)
    said = {k: f.contents() for k, f in reader.fields.items()}
    assert (said["general.type"], said["adapter.type"]) == ("adapter", "lora")
    assert said["general.architecture"] == made.arch
    assert (said["general.base_model.0.organization"], said["general.base_model.0.name"]) == ("maker", "tiny")
    assert said["adapter.lora.alpha"] == c["lora_alpha"]
    bits = said["ffwd.adapter.trained_rows"]
    assert len(bits) == -(-said["ffwd.adapter.vocab_size"] // 32)
    assert [t for t in range(32 * len(bits)) if bits[t // 32] >> t % 32 & 1] == rows.tolist()
    data = tensors(out)
    assert len(data) == 2 * len(modules)
    for i in range(LAYERS):
        for part, (module, _, _) in PARTS.items():
            name = f"blk.{i}.{part}.weight."
            a, b = data[name + "lora_a"], data[name + "lora_b_t"].T
            got, want = said["adapter.lora.alpha"] / len(a) * b @ a, modules[i, module].delta()
            assert np.linalg.norm(got - want) < 0.02 * np.linalg.norm(want), name


def test_adapters_of_peft_are_read():
    """The fixture of the Rust tests, which `peft` wrote."""
    folder = os.path.join(HERE, "..", "..", "tests", "data", "adapters")
    _, modules = adapter_folder.read(os.path.join(folder, "llama-all"))
    assert len(modules) == 14 and modules[0, "self_attn.q_proj"].scale == 3.0
    assert modules[1, "mlp.down_proj"].scale == 2.0 and modules[0, "self_attn.q_proj"].rank == 4
    _, modules = adapter_folder.read(os.path.join(folder, "llama-some"))
    assert sorted(modules) == [(0, "self_attn.q_proj"), (0, "self_attn.v_proj"), (1, "mlp.down_proj")]
    assert all(abs(m.scale - 3 / 6 ** 0.5) < 1e-9 for m in modules.values())


def test_outputs_that_are_no_whole_blocks_are_stored_as_llama_cpp_has_them(tmp_path):
    r = np.random.default_rng(1)
    random_half = lambda *size: r.normal(0, 0.1, size).astype(np.float16).astype(np.float32)
    a, b = random_half(3, 32), random_half(2 * WIDTH + 16, 3)
    m = adapter_folder.Module(0, "self_attn.q_proj", a, b, 4.0)
    path, c = str(tmp_path / "adapter.gguf"), dict(arch="llama", heads=HEADS, kv=KV)
    w = gguf.GGUFWriter(path, "llama")
    adapter_gguf.add(w, c, m, 12.0)
    adapter_gguf.gguf_model.finish(w)
    data = tensors(path)
    np.testing.assert_array_equal(unpaired("llama", "attn_q", data["blk.0.attn_q.weight.lora_b"]), b)
    assert np.abs(data["blk.0.attn_q.weight.lora_a"] - a).max() < 0.002


def test_an_adapter_of_another_model_is_refused(made):
    peft = os.path.join(HERE, "..", "..", "tests", "data", "adapters", "llama-all")
    m = adapter_folder.read(peft)[1]
    m[0, "mlp.down_proj"].b = np.zeros((WIDTH + 1, RANK), np.float32)
    with pytest.raises(SystemExit, match="mlp.down_proj of layer 0"):
        adapter_gguf.gguf_model.check_shapes(made.model, gguf.GGUFReader(made.model).tensors, m)


# ---------------------------------------------------------------- workers
def test_a_dead_worker_ends_the_making_of_documents(made):
    with pytest.raises(SystemExit, match="worker 100 died with exit code 1"):
        command(
            adapter_data, "stream", made.data, "--model", "x", made.tokenizer, "missing.npy", "--workers", 1,
            "--shard", 5)


def test_a_dead_reader_ends_the_training_of_an_adapter(made, tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    with pytest.raises(workers.WorkerDied, match="the reader of documents died with exit code 1"):
        command(
            adapter_train, made.packed, tmp_path, tmp_path / "out", "--steps", 1, "--tokens", 256, "--rank", 2,
            "--narrow", 2, "--device", "cpu")


def test_documents_that_never_come_end_the_training_of_an_adapter(made, tmp_path, monkeypatch):
    monkeypatch.setattr(adapter_train, "PATIENCE", 0.1)
    with pytest.raises(workers.WorkerDied, match="the reader of documents died with exit code 1"):
        command(
            adapter_train, made.packed, tmp_path, tmp_path / "out", "--steps", 1, "--tokens", 256, "--rank", 2,
            "--narrow", 2, "--device", "cpu")


def test_a_dead_worker_ends_the_training_of_a_pair():
    data = train.loader("missing.json", 2, 64, 1, mp.Value("i", 64), rows=2, seed=3)
    with pytest.raises(workers.WorkerDied, match=r"worker 0 \(seed 1300\) died with exit code 1"):
        next(data)


def wait_for_ever(q):
    q.put("made")
    signal.pause()


def test_a_killed_worker_is_noticed_while_others_go_on():
    q = mp.Queue()
    ps = [workers.start(wait_for_ever, q, name=f"worker {i}") for i in range(2)]
    assert workers.take(q, ps) == "made"
    ps[1].kill()
    ps[1].join()
    with pytest.raises(workers.WorkerDied, match="worker 1 died with exit code -9"):
        workers.take(q, ps)
    workers.stop(ps)


# ---------------------------------------------------------------- texts
def test_a_sentence_of_another_text_brings_its_dates():
    """These made a date that follows one of a sentence that was left behind."""
    g = Gen(5, compact=True, prose=1.0)
    for seed in (81351, 99595, 131613, 179027):
        g.r.seed(seed)
        assert prose_tasks.record(g)["task"] == "record"


def test_dates_that_follow_unknown_slots_are_refused():
    with pytest.raises(prose.FrameError, match="no slot 'begun'"):
        prose.loose_parts("We close on {~after:begun}.")


def test_assistants_call_tools_and_chat():
    docs = adapter_data.Documents(3, tools_share=1.0, call="json")
    random.seed(1)
    some = [docs.one() for _ in range(60)]
    calls = [json.loads(answer) for task, _, answer in some if task == "tool"]
    assert len(calls) > 30 and all(c.keys() == {"name", "arguments"} for c in calls)
    assert any(task == "chat" and "<tools>" in prompt for task, prompt, _ in some)
