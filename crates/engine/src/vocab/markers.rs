//! Special tokens treated as text: markers that models write, such as `[/THINK]` or
//! `<|python_tag|>`.
//!
//! A special token has no bytes, so no constraint matches it. If a tokenizer has a marker as a
//! special token, a constraint would require the marker letter by letter, in tokens that the model
//! never uses for it. A special token treated as text has the bytes of its name, like the tokens
//! that tokenizers add without calling them special (`<tool_call>` of Qwen). Input text still
//! cannot become such a token.
//!
//! # Cost
//!
//! The tokenizer is read once more.
//!
//! # Alternatives considered
//!
//! Reserved bytes for special tokens were rejected: a constraint would need a notation of its own
//! for them, while structural tags and thinking name markers by their text.

use std::sync::Arc;

use tokenizers::{AddedToken, Tokenizer};

use super::{TokenId, Vocabulary, VocabularyInner, encode_with, read};
use crate::error::{Error, ErrorKind, Result};

impl Vocabulary {
    /// Returns the vocabulary in which the special tokens contained in `texts` are ordinary text.
    /// Tokens that end a generation stay special, and so do tokens with a byte for which
    /// [`has_byte`](Self::has_byte) is false. Pass the texts that outputs contain: the begin and
    /// end tags of tool calls, the end of thinking.
    ///
    /// ```no_run
    /// # fn main() -> ffwd_engine::Result<()> {
    /// let vocab = ffwd_engine::Vocabulary::from_file("tokenizer.json")?.with_markers(&["[TOOL_CALLS]", "[/THINK]"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the tokenizer cannot be serialised and read again.
    pub fn with_markers<S: AsRef<str>>(self, texts: &[S]) -> Result<Vocabulary> {
        let is_marked = |special: &String| {
            let ends = self.token_id(special).is_none_or(|id| self.eos.contains(&id));
            let spelled = special.bytes().all(|b| self.has_byte(b));
            !special.is_empty()
                && spelled
                && !ends
                && texts.iter().any(|text| text.as_ref().contains(special.as_str()))
        };
        let mut made: Vec<String> =
            self.inner.special_texts.iter().filter(|s| is_marked(s)).cloned().collect();
        if made.is_empty() {
            return Ok(self);
        }
        let mut inner = self.with_kind(&made, false)?;
        made.extend_from_slice(&self.inner.made_text);
        inner.made_text = made;
        Ok(Vocabulary { inner: Arc::new(inner), ..self })
    }

    /// Returns the vocabulary in which the tokens with these texts are special, whatever the file
    /// calls them. Texts that are no tokens have no effect.
    ///
    /// # Errors
    /// Fails if the tokenizer cannot be serialised and read again.
    pub fn with_special<S: AsRef<str>>(self, texts: &[S]) -> Result<Vocabulary> {
        let texts = texts.iter().map(|text| text.as_ref().to_owned());
        let made: Vec<String> =
            texts.filter(|text| self.token_id(text).is_some_and(|id| !self.is_special(id))).collect();
        if made.is_empty() {
            return Ok(self);
        }
        let mut inner = self.with_kind(&made, true)?;
        inner.made_text.clone_from(&self.inner.made_text);
        Ok(Vocabulary { inner: Arc::new(inner), ..self })
    }

    /// Reads the tokenizer again with the tokens called `names` as special ones, or as text.
    fn with_kind(&self, names: &[String], special: bool) -> Result<VocabularyInner> {
        let fail = |e| Error::new(ErrorKind::Tokenizer, format!("the tokenizer cannot be changed: {e}"));
        let tokenizer = as_kind(&self.inner.tokenizer, names, special).map_err(fail)?;
        Vocabulary::inner(tokenizer, self.inner.spelling)
    }

    /// Returns the texts of all special tokens, including those treated as text. Input text must
    /// not become one of these tokens.
    pub fn reserved_texts(&self) -> Vec<String> {
        self.inner.special_texts.iter().chain(&self.inner.made_text).cloned().collect()
    }

    /// Returns the first special token whose text occurs in `text`.
    pub fn special_within(&self, text: &str) -> Option<&str> {
        self.inner.special_texts.iter().map(String::as_str).find(|s| !s.is_empty() && text.contains(s))
    }

    /// Encodes input text. Neither special tokens nor special tokens treated as text have a meaning
    /// in it.
    ///
    /// # Errors
    /// Fails if the tokenizer rejects the text.
    pub fn encode_outside(&self, text: &str) -> Result<Vec<TokenId>> {
        let made = &self.inner.made_text;
        if made.is_empty()
            || !self.inner.normalises_special && !made.iter().any(|m| text.contains(m.as_str()))
        {
            return self.encode(text);
        }
        let tokenizer = self.inner.outside.get_or_init(|| {
            let mut tokenizer = self.inner.tokenizer.clone();
            let special: Vec<AddedToken> = made.iter().map(|m| AddedToken::from(m.as_str(), true)).collect();
            // Adding a token that exists already cannot fail.
            let _ = tokenizer.add_special_tokens(special);
            tokenizer.set_encode_special_tokens(true);
            tokenizer
        });
        encode_with(tokenizer, text)
    }
}

/// Returns the tokenizer in which the tokens called `names` are special or not.
fn as_kind(tokenizer: &Tokenizer, names: &[String], special: bool) -> Result<Tokenizer, String> {
    let text = tokenizer.to_string(false).map_err(|e| e.to_string())?;
    let mut file: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let Some(added) = file["added_tokens"].as_array_mut() else { return Err("no added tokens".to_owned()) };
    for name in names {
        match added.iter_mut().find(|token| token["content"].as_str() == Some(name)) {
            Some(token) => token["special"] = special.into(),
            None => added.push(serde_json::json!({"id": tokenizer.token_to_id(name), "content": name,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                "special": special})),
        }
    }
    added.sort_by_key(|token| token["id"].as_u64());
    read(file.to_string().as_bytes())
}
