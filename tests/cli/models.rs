//! `ffwd models`, and models by the name of a repository, with a cache of their own.

use std::path::Path;
use std::process::{Command, Output};

use ffwd::model::embedded::DRAFT_GGUF;
use serde_json::Value;

use crate::program::texts;

/// Runs the program with this cache and without a network.
fn ffwd(cache: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ffwd"))
        .args(args)
        .env("HF_HUB_CACHE", cache)
        // Nothing answers there.
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .output()
        .unwrap()
}

/// A cache with one model: the embedded draft model under a name.
fn cache() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let repo = dir.path().join("models--someone--tiny-GGUF");
    std::fs::create_dir_all(repo.join("snapshots").join(commit)).unwrap();
    std::fs::create_dir_all(repo.join("refs")).unwrap();
    std::fs::write(repo.join("refs/main"), commit).unwrap();
    std::fs::write(repo.join("snapshots").join(commit).join("tiny-Q8_0.gguf"), DRAFT_GGUF).unwrap();
    dir
}

#[test]
fn the_list_has_embedded_and_cached_models() {
    let dir = cache();
    let (out, err) = texts(&ffwd(dir.path(), &["models"]));
    assert_eq!(err, "");
    let line = |name: &str| out.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{out}"));
    assert!(line("model ").contains("context"));
    assert!(line("extract-5m").contains("GGUF Q8_0") && line("extract-5m").contains("llama"));
    assert!(line("someone/tiny-GGUF:tiny-Q8_0.gguf").contains("GGUF Q8_0"));
    let report: Value = serde_json::from_str(&texts(&ffwd(dir.path(), &["models", "--json"])).0).unwrap();
    let cached = &report["cached"][0];
    assert_eq!(cached["name"], "someone/tiny-GGUF:tiny-Q8_0.gguf");
    assert_eq!(cached["bytes"], DRAFT_GGUF.len());
    assert!(Path::new(cached["path"].as_str().unwrap()).is_file());
    assert_eq!(report["embedded"].as_array().unwrap().len(), 2);
    let empty = tempfile::tempdir().unwrap();
    let (out, _) = texts(&ffwd(empty.path(), &["models"]));
    assert!(out.contains("cache of the model hub is empty"), "{out}");
}

#[test]
fn a_cached_model_is_used_by_its_name() {
    let dir = cache();
    let run = |more: &[&str]| {
        let args = [&["generate", "x", "--regex", "[a-c]{3}", "--model"], more].concat();
        texts(&ffwd(dir.path(), &args))
    };
    let (by_file, err) = run(&["someone/tiny-GGUF:tiny-Q8_0.gguf", "--offline"]);
    assert_eq!(by_file.trim().len(), 3, "{err}");
    for more in [
        &["someone/tiny-GGUF", "--offline"][..],
        &["someone/tiny-GGUF:q8_0", "--offline", "--revision", "main"],
        &["someone/tiny-GGUF@main:q8_0", "--offline"],
    ] {
        let (out, err) = run(more);
        assert_eq!(out, by_file, "{more:?}: {err}");
    }
    // The hub does not answer: the copy serves, with a warning.
    let (out, err) = run(&["someone/tiny-GGUF"]);
    assert_eq!(out, by_file, "{err}");
    assert!(err.contains("copy in the cache"), "{err}");
}

#[test]
fn what_is_not_there_has_a_hint() {
    let dir = cache();
    let run = |more: &[&str]| {
        let output = ffwd(dir.path(), &[&["generate", "x", "--regex", "a", "--model"], more].concat());
        (output.status.code(), texts(&output).1)
    };
    let (code, err) = run(&["someone/absent", "--offline"]);
    assert!(code == Some(1) && err.contains("not in the cache") && err.contains("online"), "{err}");
    let (code, err) = run(&["someone/absent"]);
    assert!(code == Some(1) && err.contains("connection"), "{err}");
    let (code, err) = run(&["someone/tiny-GGUF@main", "--revision", "other", "--offline"]);
    assert!(code == Some(2) && err.contains("name one of them"), "{err}");
    let (code, err) = run(&["no-such-file.gguf"]);
    assert!(code == Some(1) && err.contains("OWNER/NAME"), "{err}");
}
