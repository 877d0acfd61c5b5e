//! The marks of turns in chats: texts of tokens that begin or end a message.
//!
//! Files often name the end of a document alone as the end, or call a mark plain text. The names
//! here are those that the families of models have.
//!
//! # Cost
//! A text is searched once for marks.
//!
//! # Alternatives considered
//! Every token with angle brackets was rejected as a mark: tags of markup are ordinary tokens.

/// Tokens that end a turn, or a document, between spaces.
const ENDS: &str = "<|im_end|> <|eot_id|> <|eom_id|> <|end|> <end_of_turn> <|end_of_turn|> <|END_OF_TURN_TOKEN|> \
    <end_of_utterance> <|return|> <|call|> <|endoftext|> <|end_of_text|> <｜end▁of▁sentence｜> <EOT> <eos> </s>";
/// Tokens that begin a turn, or stand around its role.
const STARTS: &str =
    "<|im_start|> <|start_header_id|> <|end_header_id|> <start_of_turn> <|START_OF_TURN_TOKEN|>";
/// Tokens that begin a document.
pub const BEGINS: [&str; 4] = ["<|begin_of_text|>", "<s>", "<bos>", "<｜begin▁of▁sentence｜>"];
/// With this token, `<|end|>` ends a message, and a turn has several.
pub const RETURN: &str = "<|return|>";
/// Largest number of characters of a mark.
const MAX_MARK: usize = 64;

/// Returns the tokens that end a turn or a document, if they are special.
pub fn ends() -> impl Iterator<Item = &'static str> {
    ENDS.split(' ')
}

/// Returns the marks that are special in every model that has them.
pub fn known() -> impl Iterator<Item = &'static str> {
    // Short tags without bars are also markup.
    ends().chain(STARTS.split(' ')).filter(|text| text.contains(['|', '｜', '_']))
}

/// Returns true if a text has the form of a mark, such as `<|user|>` or `[INST]`.
pub fn is_mark(text: &str) -> bool {
    let between = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '▁' | '/' | ':'))
    };
    let barred = between("<|", "|>").or_else(|| between("<｜", "｜>"));
    barred.or_else(|| between("<", "_of_turn>")).is_some_and(is_name)
        || between("[", "]").is_some_and(|name| {
            is_name(name) && !name.contains(|c: char| !c.is_uppercase() && !matches!(c, '_' | '/'))
        })
}

/// Returns the marks with angle brackets in a text.
pub fn marks_in(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('<').filter_map(|(at, _)| {
        let rest = &text[at..];
        let (end, _) = rest.char_indices().take(MAX_MARK).find(|(_, c)| *c == '>')?;
        Some(&rest[..=end]).filter(|mark| is_mark(mark))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_no_mark() {
        for text in ["<|im_end|>", "<｜User｜>", "<end_of_turn>", "[INST]", "[/INST]", "[TOOL_CALLS]"] {
            assert!(is_mark(text), "{text}");
        }
        for text in ["<div>", "<||>", "<|a b|>", "[0]", "['role']", "[]", "<tools>", "<_of_turn>"] {
            assert!(!is_mark(text), "{text}");
        }
        let source = "{{ '<|im_start|>' + role }}<b><|a|>{% if x<|length %}<start_of_turn>";
        assert_eq!(marks_in(source).collect::<Vec<_>>(), ["<|im_start|>", "<|a|>", "<start_of_turn>"]);
    }
}
