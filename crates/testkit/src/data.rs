//! The benchmark files and published models: where they are, and how their lines are read without touching number texts
//! and property order (which a parsed value would lose).

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

/// One schema with its instances, as source text.
pub struct Entry {
    pub id: String,
    pub schema: String,
    pub tests: Vec<Instance>,
}

/// An instance: compact JSON text.
pub struct Instance {
    pub data: String,
    pub valid: bool,
}

/// The folder with the benchmark data: `FFWD_BENCH_DIR`, or `../shared/bench` next to the
/// repository.
pub fn bench_dir() -> Option<PathBuf> {
    let dir = match crate::env::bench_dir() {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/bench"),
    };
    dir.join("maskbench-dev-sample.jsonl.zst").is_file().then_some(dir)
}

/// Files of published models, in the folder that `FFWD_REAL_MODELS` names.
pub const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// The path of a published model, or none, with a message that says why.
pub fn real_model(file: &str) -> Option<PathBuf> {
    let Some(folder) = crate::env::real_models() else {
        eprintln!("skipped: set FFWD_REAL_MODELS to a folder that benches/real_models/fetch.py has filled");
        return None;
    };
    let path = PathBuf::from(folder).join(file);
    if path.is_file() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent; benches/real_models/fetch.py fetches it", path.display());
    None
}

/// Reads a JSON Lines file, compressed if its name ends in `.zst`.
pub fn load(path: &std::path::Path) -> std::io::Result<Vec<Entry>> {
    let bytes = std::fs::read(path)?;
    let bytes = match path.extension() {
        Some(e) if e == "zst" => zstd::decode_all(&bytes[..])?,
        _ => bytes,
    };
    let text = String::from_utf8(bytes).map_err(std::io::Error::other)?;
    // Only "\n" ends a line: strings hold U+2028.
    let lines = text.split('\n').filter(|line| !line.trim().is_empty());
    let entry = |line| {
        serde_json::from_str(line).map(|line: RawEntry<'_>| Entry {
            id: line.id,
            schema: line.schema.get().to_owned(),
            tests: line
                .tests
                .iter()
                .map(|t| Instance { data: t.data.get().to_owned(), valid: t.valid })
                .collect(),
        })
    };
    lines.map(|line| entry(line).map_err(std::io::Error::other)).collect()
}

#[derive(Deserialize)]
struct RawEntry<'a> {
    id: String,
    #[serde(borrow)]
    schema: &'a RawValue,
    #[serde(borrow, default)]
    tests: Vec<RawInstance<'a>>,
}

#[derive(Deserialize)]
struct RawInstance<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
    valid: bool,
}

/// Where the string ends that starts at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut i = at + 1;
    while *text.get(i)? != b'"' {
        i += if text[i] == b'\\' { 2 } else { 1 };
    }
    Some(i + 1)
}

/// The same JSON text without white space and with every string spelled in the one way that the
/// engine spells it; numbers and order are untouched. `None` if a string is no Unicode text.
pub fn canonical(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => {
                let end = string_end(bytes, i)?;
                let decoded: String = serde_json::from_str(&text[i..end]).ok()?;
                quote(&decoded, &mut out);
                i = end;
            }
            b' ' | b'\n' | b'\r' | b'\t' => i += 1,
            b => {
                out.push(char::from(b));
                i += 1;
            }
        }
    }
    Some(out)
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}
