//! Writes GGUF metadata byte by byte, also such as no converter would write, and turns a
//! `tokenizer.json` into them.

use serde_json::Value;

/// A value as it is written.
#[derive(Clone)]
pub(crate) enum Meta {
    Text(Vec<u8>),
    Flag(bool),
    Number(u32),
    Texts(Vec<Vec<u8>>),
    Numbers(Vec<i32>),
    Floats(Vec<f32>),
    /// An array of this type that claims a number of entries and has none.
    Claimed(u32, u64),
}

pub(crate) fn text(t: &str) -> Meta {
    Meta::Text(t.into())
}

pub(crate) fn texts<T: AsRef<str>>(list: &[T]) -> Meta {
    Meta::Texts(list.iter().map(|t| t.as_ref().into()).collect())
}

pub(crate) type Metadata = Vec<(String, Meta)>;

/// The value of a key, to be changed.
pub(crate) fn value<'a>(metadata: &'a mut Metadata, key: &str) -> &'a mut Meta {
    let key = format!("tokenizer.ggml.{key}");
    &mut metadata.iter_mut().find(|(k, _)| *k == key).unwrap().1
}

/// A GGUF file without tensors.
pub(crate) fn file(metadata: &[(String, Meta)]) -> Vec<u8> {
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    out.extend(0u64.to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        // The number of the type, and the bytes.
        let (kind, bytes): (u32, Vec<u8>) = match value {
            Meta::Number(n) => (4, n.to_le_bytes().into()),
            Meta::Flag(b) => (7, vec![u8::from(*b)]),
            Meta::Text(t) => (8, string(t)),
            Meta::Texts(list) => (9, array(8, list.len(), list.iter().flat_map(|t| string(t)))),
            Meta::Numbers(list) => (9, array(5, list.len(), list.iter().flat_map(|n| n.to_le_bytes()))),
            Meta::Floats(list) => (9, array(6, list.len(), list.iter().flat_map(|n| n.to_le_bytes()))),
            Meta::Claimed(kind, n) => (9, array(*kind, *n as usize, [])),
        };
        out.extend(string(key.as_bytes()));
        out.extend(kind.to_le_bytes());
        out.extend(bytes);
    }
    out.resize(out.len().next_multiple_of(32), 0);
    out
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

fn array(kind: u32, n: usize, entries: impl IntoIterator<Item = u8>) -> Vec<u8> {
    kind.to_le_bytes().into_iter().chain((n as u64).to_le_bytes()).chain(entries).collect()
}

/// The metadata of a byte-level BPE from its `tokenizer.json`, as converters write them.
pub(crate) fn of_json(json: &Value, pre: &str, end: u32) -> Metadata {
    let model = &json["model"];
    let mut tokens: Vec<(String, i32)> = Vec::new();
    let mut set = |id: &Value, text: &str, kind| {
        let id = id.as_u64().unwrap() as usize;
        if tokens.len() <= id {
            // Unused, unless a token comes.
            tokens.resize(id + 1, (String::new(), 5));
        }
        tokens[id] = (text.to_owned(), kind);
    };
    for (text, id) in model["vocab"].as_object().unwrap() {
        set(id, text, 1);
    }
    for added in json["added_tokens"].as_array().unwrap() {
        let kind = if added["special"] == true { 3 } else { 4 };
        set(&added["id"], added["content"].as_str().unwrap(), kind);
    }
    let merge = |m: &Value| match m {
        Value::String(m) => m.clone(),
        m => format!("{} {}", m[0].as_str().unwrap(), m[1].as_str().unwrap()),
    };
    let merges: Vec<String> = model["merges"].as_array().unwrap().iter().map(merge).collect();
    let (tokens, types): (Vec<String>, Vec<i32>) = tokens.into_iter().unzip();
    let entries = [
        ("model", text("gpt2")),
        ("pre", text(pre)),
        ("tokens", texts(&tokens)),
        ("token_type", Meta::Numbers(types)),
        ("merges", texts(&merges)),
        ("eos_token_id", Meta::Number(end)),
    ];
    entries.map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).into()
}
