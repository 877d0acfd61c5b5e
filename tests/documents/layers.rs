//! The layers of `docs/architecture.md`: a module uses those below it only. Between the crates the
//! compiler enforces this; inside of each, this test does.

use std::path::{Path, PathBuf};

/// The engine's modules, lowest first.
const ENGINE: [&str; 6] = ["vocab", "char_lang", "constraint", "machine", "mask", "matcher"];
/// The runtime's modules, lowest first.
const RUNTIME: [&str; 8] = ["threads", "model", "chat", "sample", "speedup", "draft", "decode", "extract"];

/// All Rust files below a folder.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut todo = vec![folder.to_path_buf()];
    let mut files = Vec::new();
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The code of a line, without a comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Names that a line of code uses of the crate's own modules: `crate::NAME`.
fn used(line: &str) -> impl Iterator<Item = &str> {
    code(line).split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

fn upward(source: &Path, layers: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (height, layer) in layers.iter().enumerate() {
        for file in rust_files(&source.join(layer)) {
            let text = std::fs::read_to_string(&file).expect("a source file");
            for (i, line) in text.lines().enumerate() {
                for name in used(line) {
                    if layers.iter().position(|l| *l == name).is_some_and(|h| h > height) {
                        found.push(format!("{}:{}: {}", file.display(), i + 1, line.trim()));
                    }
                }
            }
        }
    }
    found
}

#[test]
fn no_module_uses_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = root.join("crates");
    let found =
        [upward(&crates.join("engine/src"), &ENGINE), upward(&crates.join("runtime/src"), &RUNTIME)].concat();
    assert!(found.is_empty(), "imports that reach up:\n{}", found.join("\n"));
}

#[test]
fn an_upward_import_would_be_found() {
    assert_eq!(used("use crate::mask::MaskCache;").collect::<Vec<_>>(), ["mask"]);
    assert_eq!(
        used("    a(crate::model::x, crate::cli::y) // crate::decode").collect::<Vec<_>>(),
        ["model", "cli"]
    );
    let layers = ["decode", "mask"];
    assert!(layers.iter().position(|l| *l == "mask") > layers.iter().position(|l| *l == "decode"));
}
