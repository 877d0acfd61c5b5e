//! The benchmark files and published models: where they are, and how their lines are read without touching number texts
//! and property order (which a parsed value would lose).

use std::ops::Range;
use std::path::PathBuf;

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
    text.split('\n')
        .filter(|line| !line.trim().is_empty())
        .map(|line| entry(line).ok_or_else(|| std::io::Error::other(format!("not an entry: {line:.80}"))))
        .collect()
}

fn entry(line: &str) -> Option<Entry> {
    let (mut id, mut schema, mut tests) = (None, None, Vec::new());
    for (key, value) in members(line)? {
        match key {
            "\"id\"" => id = serde_json::from_str(value).ok(),
            "\"schema\"" => schema = Some(value.to_string()),
            "\"tests\"" => {
                for test in elements(value)? {
                    let members = members(test)?;
                    let get = |name: &str| members.iter().find(|m| m.0 == name).map(|m| m.1);
                    let valid = get("\"valid\"")? == "true";
                    tests.push(Instance { data: get("\"data\"")?.to_string(), valid });
                }
            }
            _ => {}
        }
    }
    Some(Entry { id: id?, schema: schema?, tests })
}

/// Where the value that starts at `at` ends.
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    let (mut depth, mut i) = (0usize, at);
    loop {
        match *text.get(i)? {
            b'"' => {
                i += 1;
                while *text.get(i)? != b'"' {
                    i += if text[i] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {
                while !matches!(text.get(i + 1), None | Some(b',' | b':' | b'}' | b']')) {
                    i += 1;
                }
            }
        }
        i += 1;
        if depth == 0 {
            return Some(i);
        }
        while let Some(b',' | b':' | b' ' | b'\n' | b'\t' | b'\r') = text.get(i) {
            i += 1;
        }
    }
}

fn pieces(text: &str) -> Option<Vec<Range<usize>>> {
    let bytes = text.as_bytes();
    let (mut found, mut i) = (Vec::new(), 1);
    loop {
        while let Some(b',' | b':' | b' ' | b'\n' | b'\t' | b'\r') = bytes.get(i) {
            i += 1;
        }
        if matches!(bytes.get(i)?, b'}' | b']') {
            return Some(found);
        }
        let end = value_end(bytes, i)?;
        found.push(i..end);
        i = end;
    }
}

/// Keys and values of an object, as source text.
pub fn members(text: &str) -> Option<Vec<(&str, &str)>> {
    let pieces = pieces(text)?;
    Some(pieces.chunks_exact(2).map(|p| (&text[p[0].clone()], &text[p[1].clone()])).collect())
}

/// Elements of an array, as source text.
pub fn elements(text: &str) -> Option<Vec<&str>> {
    Some(pieces(text)?.into_iter().map(|p| &text[p]).collect())
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
                let end = value_end(bytes, i)?;
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
