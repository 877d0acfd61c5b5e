//! Writes GGUF metadata byte by byte, also such as no converter would write, and turns a
//! `tokenizer.json` into them.

use serde_json::Value;

/// A value as it is written.
#[derive(Clone)]
pub enum Meta {
    Text(Vec<u8>),
    Flag(bool),
    Number(u32),
    Texts(Vec<Vec<u8>>),
    Numbers(Vec<i32>),
    Floats(Vec<f32>),
    /// An array of this type that claims a number of entries and has none.
    Claimed(u32, u64),
}

pub fn text(t: &str) -> Meta {
    Meta::Text(t.into())
}

pub fn texts<T: AsRef<str>>(list: &[T]) -> Meta {
    Meta::Texts(list.iter().map(|t| t.as_ref().into()).collect())
}

pub type Metadata = Vec<(String, Meta)>;

/// The value of a key, to be changed.
pub fn value<'a>(metadata: &'a mut Metadata, key: &str) -> &'a mut Meta {
    let key = format!("tokenizer.ggml.{key}");
    &mut metadata.iter_mut().find(|(k, _)| *k == key).unwrap().1
}

/// A GGUF file without tensors.
pub fn file(metadata: &[(String, Meta)]) -> Vec<u8> {
    let mut out = b"GGUF\x03\0\0\0".to_vec();
    out.extend(0u64.to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        string(&mut out, key.as_bytes());
        match value {
            Meta::Text(t) => {
                out.extend(8u32.to_le_bytes());
                string(&mut out, t);
            }
            Meta::Flag(b) => {
                out.extend(7u32.to_le_bytes());
                out.push(u8::from(*b));
            }
            Meta::Number(n) => {
                out.extend(4u32.to_le_bytes());
                out.extend(n.to_le_bytes());
            }
            Meta::Texts(list) => {
                array(&mut out, 8, list.len() as u64);
                list.iter().for_each(|t| string(&mut out, t));
            }
            Meta::Numbers(list) => {
                array(&mut out, 5, list.len() as u64);
                list.iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
            Meta::Floats(list) => {
                array(&mut out, 6, list.len() as u64);
                list.iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
            Meta::Claimed(kind, n) => array(&mut out, *kind, *n),
        }
    }
    out.resize(out.len().next_multiple_of(32), 0);
    out
}

fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}

fn array(out: &mut Vec<u8>, kind: u32, n: u64) {
    out.extend(9u32.to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend(n.to_le_bytes());
}

/// The metadata of a byte-level BPE from its `tokenizer.json`, as converters write them.
pub fn of_json(json: &Value, pre: &str, end: u32) -> Metadata {
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
