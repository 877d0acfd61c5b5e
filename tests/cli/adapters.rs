//! Adapters and models with a name, by the options of the program.

use std::path::Path;
use std::process::{Command, Output};

use ffwd::model::embedded::{DRAFT_GGUF, TOKENIZER_JSON};
use ffwd_testkit::adapter_file;
use ffwd_testkit::gguf_file::{self, MetaValue, Tensor};

use crate::pile::Folder;
use crate::program::{ffwd, texts};

#[test]
fn an_adapter_changes_the_output_and_its_scale_counts() {
    let folder = Folder::new();
    adapter_file::write(&folder.0.path().join("a"), 0.3);
    let path = folder.path("a");
    let run = |adapter: &str| {
        let args = ["generate", "Write: ", "--regex", "[a-z]{30}", "--adapter", adapter];
        texts(&ffwd(if adapter.is_empty() { &args[..4] } else { &args }))
    };
    let (plain, adapted) = (run("").0, run(&path).0);
    assert_eq!((plain.trim_end().len(), adapted.trim_end().len()), (30, 30), "{plain:?} {adapted:?}");
    assert_ne!(plain, adapted);
    assert_eq!(run(&format!("{path}:0")).0, plain);
    assert_eq!(run(&format!("{path}:1.0")).0, adapted);
    for (adapter, wanted) in [
        (format!("{path}:nan"), "scale"),
        (format!("{path}:x"), "no such file"),
        (folder.path("in"), "no such file"),
        ("extract".into(), "no adapter `extract` for this model"),
        ("medium".into(), "Qwen/Qwen2.5-Coder-0.5B-Instruct"),
    ] {
        let (out, err) = run(&adapter);
        assert!(out.is_empty() && err.contains(wanted), "{adapter}: {err}");
    }
}

#[test]
fn a_resumed_run_knows_the_adapter_by_its_content_and_scale() {
    let folder = Folder::new();
    for i in 0..3 {
        folder.write(&format!("in/{i}.txt"), &format!("The text {i}"));
    }
    let (out, adapter) = (folder.path("out.jsonl"), folder.path("a"));
    let run = |adapter: Option<&str>, more: &str| {
        let mut args = vec!["-o", &out, more];
        args.extend(adapter.into_iter().flat_map(|adapter| ["--adapter", adapter]));
        let (code, _, err) = folder.extract("in", &args);
        (code, err)
    };
    let is_made = |adapter: Option<&str>, more: &str| {
        let (code, err) = run(adapter, more);
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("were done"), "{err}");
        assert!(run(adapter, "--resume").1.contains("(3 were done)"));
    };
    let differs = |adapter: Option<&str>, how: &str| {
        let (code, err) = run(adapter, "--resume");
        assert!(code == 2 && err.contains(how), "{code} {err}");
        is_made(adapter, "--restart");
    };
    adapter_file::write(Path::new(&adapter), 0.01);
    is_made(None, "--resume");
    differs(Some(&adapter), "adapter: scale was not given and is 1");
    differs(Some(&format!("{adapter}:0.5")), "adapter: scale was 1 and is 0.5");
    adapter_file::write(Path::new(&adapter), 0.02);
    differs(Some(&format!("{adapter}:0.5")), "adapter_model.safetensors: digest differs");
}

/// Runs the program with this folder of models, without a network.
fn with_models(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_ffwd"))
        .args(args)
        .env("FFWD_MODELS_DIR", folder)
        .env("HF_HUB_CACHE", folder)
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .output()
        .unwrap();
    let (out, err) = texts(&output);
    (output.status.code(), out, err)
}

#[test]
fn a_model_with_a_name_says_what_is_missing_and_where_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    for (more, file) in [
        (&["small"][..], "SmolLM2-135M-Instruct.Q4_1.gguf"),
        (&["small", "--offline"], "SmolLM2-135M-Instruct.Q4_1.gguf"),
        (&["medium", "--revision", "main"], "Qwen2.5-Coder-0.5B-Instruct-GGUF"),
        (&["medium"], "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
    ] {
        let args = [&["generate", "x", "--regex", "a", "--model"], more].concat();
        let (code, out, err) = with_models(dir.path(), &args);
        assert!(code == Some(1) && out.is_empty() && err.contains(file), "{more:?}: {err}");
        assert!(more.len() == 3 || err.contains("FFWD_MODELS_DIR"), "{more:?}: {err}");
    }
    // Another model under the name of the base.
    std::fs::write(dir.path().join("SmolLM2-135M-Instruct.Q4_1.gguf"), DRAFT_GGUF).unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), TOKENIZER_JSON).unwrap();
    let (code, _, err) = with_models(dir.path(), &["generate", "x", "--regex", "a", "--model", "small"]);
    assert!(code == Some(1) && err.contains("not the base of the model `small`"), "{err}");
    let (_, out, err) = with_models(dir.path(), &["models"]);
    let line =
        |name: &str| out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{out}{err}"));
    assert!(line("small (with its adapter)").contains("GGUF Q8_0"), "{out}");
    assert!(line("medium (with its adapter)").contains("fetched when it is used"), "{out}");
    let report: serde_json::Value =
        serde_json::from_str(&with_models(dir.path(), &["models", "--json"]).1).unwrap();
    assert_eq!(report["named"][1]["name"], "medium");
    let adapter = report["named"][1]["adapter_file"].as_str().unwrap();
    assert!(Path::new(adapter).ends_with("assets/adapters/extract-qwen2.5-coder-0.5b.gguf"), "{adapter}");
}

#[test]
fn the_embedded_model_says_once_where_better_records_come_from() {
    let folder = Folder::new();
    folder.write("in/a.txt", "The text");
    folder.write("in/b.txt", "Another text");
    for from in ["in/a.txt", "in"] {
        let (_, _, err) = folder.extract(from, &[]);
        assert_eq!(err.matches("--model small or medium").count(), 1, "{err}");
    }
}

/// An adapter in a GGUF file that changes nothing, and whose training has seen the tokens of some bits.
fn write_gguf(path: &str, trained: u32) {
    let text = |key: &str, value: &str| (key.to_owned(), MetaValue::Text(value.to_owned()));
    let metadata = [
        text("general.type", "adapter"),
        text("adapter.type", "lora"),
        text("general.architecture", "llama"),
        ("ffwd.adapter.trained_rows".to_owned(), MetaValue::U32s(vec![trained; 4096 / 32])),
    ];
    let zeros = |side: &str, shape: [usize; 2]| Tensor {
        name: format!("blk.2.ffn_up.weight.lora_{side}"),
        shape: shape.to_vec(),
        kind: 0,
        bytes: vec![0; 4 * shape[0] * shape[1]],
    };
    std::fs::write(path, gguf_file::file(&metadata, &[zeros("a", [4, 256]), zeros("b", [768, 4])])).unwrap();
}

#[test]
fn a_text_of_tokens_that_the_training_has_not_seen_gets_a_note() {
    let folder = Folder::new();
    folder.write("in/a.txt", "The text");
    folder.write("in/b.txt", "Another text");
    let adapter = folder.path("adapter.gguf");
    for (trained, seen) in [(0, false), (u32::MAX, true)] {
        write_gguf(&adapter, trained);
        for (from, texts) in [("in/a.txt", 1), ("in", 2)] {
            let (code, _, err) = folder.extract(from, &["--adapter", &adapter]);
            let notes = err.matches("has seen few of this text's tokens").count();
            assert_eq!((code, notes), (0, if seen { 0 } else { texts }), "{from}: {err}");
        }
    }
}
