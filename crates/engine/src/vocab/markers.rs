//! Special tokens that are made text: markers such as `[/THINK]` or `<|python_tag|>`, which models write.
//!
//! No constraint matches a special token, since it has no bytes. A marker that a tokenizer has as one would therefore be asked
//! of the model letter by letter, in tokens that it never uses for that. Made text, the token has the bytes of its name, as those
//! tokens have that tokenizers add without calling them special (`<tool_call>` of Qwen). Text from outside still cannot become
//! it. Costs reading the tokenizer once more. Reserved bytes for special tokens, which a constraint would name in a notation of its
//! own, were rejected: structural tags and thinking name markers by their text.

use std::sync::Arc;

use tokenizers::{AddedToken, Tokenizer};

use super::{TokenId, Vocabulary, encode_with, read};
use crate::error::{Error, ErrorKind, Result};

impl Vocabulary {
    /// The vocabulary in which the special tokens that are in these texts are text, but for those that end a generation and those
    /// with bytes that are no tokens of their own ([`has_byte`](Self::has_byte)). The texts are what outputs hold: how tags of tool calls begin and end, what ends thinking.
    ///
    /// ```no_run
    /// # fn main() -> ffwd_engine::Result<()> {
    /// let vocab = ffwd_engine::Vocabulary::from_file("tokenizer.json")?.with_markers(&["[TOOL_CALLS]", "[/THINK]"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the tokenizer cannot be written and read again.
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
        let tokenizer = as_text(&self.inner.tokenizer, &made)
            .map_err(|e| Error::new(ErrorKind::Tokenizer, format!("the tokenizer cannot be changed: {e}")))?;
        let mut inner = Vocabulary::inner(tokenizer, self.inner.spelling)?;
        made.extend_from_slice(&self.inner.made_text);
        inner.made_text = made;
        Ok(Vocabulary { inner: Arc::new(inner), ..self })
    }

    /// The spellings of special tokens, those that were made text among them: what text from outside must not become.
    pub fn reserved_texts(&self) -> Vec<String> {
        self.inner.special_texts.iter().chain(&self.inner.made_text).cloned().collect()
    }

    /// The first special token whose spelling is in a text.
    pub fn special_within(&self, text: &str) -> Option<&str> {
        self.inner.special_texts.iter().map(String::as_str).find(|s| !s.is_empty() && text.contains(s))
    }

    /// Encodes text from outside, in which neither special tokens have a meaning nor those that were made text.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
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
            // What is there already cannot fail to be added.
            let _ = tokenizer.add_special_tokens(special);
            tokenizer.set_encode_special_tokens(true);
            tokenizer
        });
        encode_with(tokenizer, text)
    }
}

/// The tokenizer with these added tokens not special.
fn as_text(tokenizer: &Tokenizer, names: &[String]) -> Result<Tokenizer, String> {
    let text = tokenizer.to_string(false).map_err(|e| e.to_string())?;
    let mut file: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    for token in file["added_tokens"].as_array_mut().into_iter().flatten() {
        if token["content"].as_str().is_some_and(|content| names.iter().any(|name| name == content)) {
            token["special"] = false.into();
        }
    }
    read(file.to_string().as_bytes())
}
