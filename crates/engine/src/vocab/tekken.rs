//! Vocabularies of `tekken.json`, the tokenizer file of Mistral's models.
//!
//! The file lists the bytes of the tokens in base64, and a number of special tokens that take the
//! first ids. Only as many tokens are in use as the file says.
//!
//! # Cost
//!
//! One pass over the file, and the merges of the tokens in use.
//!
//! # Alternatives considered
//!
//! Reading all listed tokens was rejected: the logits of the model have no place for the rest.

use base64::Engine as _;
use serde::Deserialize;
use serde_json::Value;

use super::{MAX_TOKENS, TokenId, Vocabulary};
use crate::error::{Error, ErrorKind, Result};

/// The special tokens of files that do not list them.
const DEFAULT_SPECIAL: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

#[derive(Deserialize)]
struct TekkenFile {
    config: TekkenConfig,
    vocab: Vec<RankedToken>,
    special_tokens: Option<Vec<NamedToken>>,
}

#[derive(Deserialize)]
struct TekkenConfig {
    pattern: String,
    default_vocab_size: usize,
    default_num_special_tokens: usize,
}

#[derive(Deserialize)]
struct RankedToken {
    rank: usize,
    token_bytes: String,
}

#[derive(Deserialize)]
struct NamedToken {
    rank: usize,
    token_str: String,
}

/// Returns true if a JSON file is of this kind.
pub(super) fn is_tekken(file: &Value) -> bool {
    file["vocab"].is_array() && file["config"]["default_vocab_size"].is_number()
}

/// Builds the vocabulary of a file.
///
/// # Errors
/// Fails if a part is missing, or if the numbers of the file contradict its lists.
pub(super) fn vocabulary(file: Value) -> Result<Vocabulary> {
    let file: TekkenFile =
        serde_json::from_value(file).map_err(|e| fault(&format!("not a tekken.json: {e}")))?;
    let (size, reserved) = (file.config.default_vocab_size, file.config.default_num_special_tokens);
    let listed = file.vocab.len();
    let used = size.checked_sub(reserved).filter(|used| *used <= listed && size <= MAX_TOKENS);
    let Some(used) = used else {
        return Err(fault(&format!("{size} tokens, {reserved} of them special, of {listed} in the list")));
    };
    let mut names: Vec<String> = (0..reserved).map(|id| format!("<SPECIAL_{id}>")).collect();
    let special = file.special_tokens.unwrap_or_else(|| {
        let default = DEFAULT_SPECIAL.iter().enumerate();
        default.map(|(rank, name)| NamedToken { rank, token_str: (*name).to_owned() }).collect()
    });
    for token in special {
        let Some(name) = names.get_mut(token.rank) else {
            return Err(fault(&format!("the special token {} is not below {reserved}", token.rank)));
        };
        *name = token.token_str;
    }
    let mut tokens: Vec<Vec<u8>> = vec![Vec::new(); reserved];
    for (at, token) in file.vocab.iter().take(used).enumerate() {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&token.token_bytes);
        match bytes {
            Ok(bytes) if token.rank == at => tokens.push(bytes),
            Ok(_) => return Err(fault(&format!("entry {at} of `vocab` has the rank {}", token.rank))),
            Err(error) => return Err(fault(&format!("entry {at} of `vocab` is not base64: {error}"))),
        }
    }
    let named = |name: &str| -> Vec<TokenId> {
        names.iter().position(|n| n == name).into_iter().map(|id| id as TokenId).collect()
    };
    let (bos, eos) = (named("<s>"), named("</s>"));
    let special: Vec<(TokenId, String)> = (0..).zip(names).collect();
    let vocab = Vocabulary::from_ranked_tokens(&tokens, &special, &file.config.pattern, eos)?;
    Ok(vocab.with_bos(bos))
}

fn fault(message: &str) -> Error {
    Error::new(ErrorKind::Tokenizer, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file() -> Value {
        let bytes = (0..=255u8).map(|byte| vec![byte]).chain([b"ab".to_vec(), b"left out".to_vec()]);
        let encode = |bytes: Vec<u8>| base64::engine::general_purpose::STANDARD.encode(bytes);
        let vocab: Vec<Value> = bytes
            .enumerate()
            .map(|(rank, bytes)| json!({ "rank": rank, "token_bytes": encode(bytes), "token_str": null }))
            .collect();
        json!({ "vocab": vocab, "config": { "pattern": r"\s+|\S+", "num_vocab_tokens": 258,
            "default_vocab_size": 277, "default_num_special_tokens": 20, "version": "v3" } })
    }

    #[test]
    fn special_tokens_come_first_and_the_list_is_cut() {
        let vocab = Vocabulary::from_bytes(file().to_string().as_bytes()).unwrap();
        assert_eq!((vocab.len(), vocab.eos(), vocab.bos()), (277, &[2][..], &[1][..]));
        assert_eq!(vocab.token_bytes(276), b"ab");
        assert_eq!((vocab.token_bytes(9), vocab.token_id("[TOOL_CALLS]")), (&b""[..], Some(9)));
        assert_eq!(vocab.encode("ab").unwrap(), [276]);
        let mut named = file();
        named["special_tokens"] = json!([{ "rank": 5, "token_str": "</s>", "is_control": true }]);
        let vocab = vocabulary(named).unwrap();
        assert_eq!((vocab.eos(), vocab.token_id("<SPECIAL_4>")), (&[5][..], Some(4)));
    }

    #[test]
    fn contradictions_are_errors() {
        let changes: [(&str, Value); 5] = [
            ("/config/default_vocab_size", json!(5)),
            ("/config/default_vocab_size", json!(1_000)),
            ("/vocab/7/rank", json!(8)),
            ("/vocab/7/token_bytes", json!("?")),
            ("/config/pattern", json!("(")),
        ];
        for (pointer, value) in changes {
            let mut file = file();
            *file.pointer_mut(pointer).unwrap() = value;
            assert_eq!(vocabulary(file).unwrap_err().kind(), ErrorKind::Tokenizer, "{pointer}");
        }
    }
}
