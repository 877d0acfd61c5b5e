//! A list or taxonomy of labels: how they occur in an output, and how many of them.
//!
//! This is the description; [`LabelTrie`] is its form in the tokens of a vocabulary.
//!
//! # Cost
//! Checking a list costs a hash of each label.
//!
//! # Alternatives considered
//! A constraint of texts is not enough: [`Constraint::choice`](crate::Constraint::choice) lets the
//! model tokenise a label in any way. That is right for text. It is wrong where the probability of
//! a label must be one product along one path.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{LabelTrie, label_files};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::Vocabulary;

/// Maximum number of labels, including the ancestors that [`Levels::All`] adds.
pub const MAX_LABELS: usize = 1_000_000;
/// Maximum length of one label in bytes.
pub const MAX_LABEL_BYTES: usize = 4096;

/// The text before the first label of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lead {
    /// A space, if the tokenizer can write one; labels after a prompt such as `Category:` begin
    /// with it.
    #[default]
    Auto,
    /// A space.
    Space,
    /// Nothing: for a prompt that ends with a quote, a line break or a space.
    Nothing,
}

/// The levels of a hierarchy that are labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Levels {
    /// The listed ones.
    #[default]
    Listed,
    /// The listed ones that have no listed ones below them.
    Leaves,
    /// The listed ones and all above them.
    All,
}

/// Several labels in one output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Several {
    pub separator: String,
    pub least: u32,
    pub most: Option<u32>,
    pub repeats: bool,
}

/// A list of labels of which the output is one, or several.
///
/// Every label has exactly one tokenisation: the tokenizer's own for the text as it follows a
/// prompt, which usually is the label with a space before it. Each tokenisation is checked to
/// decode to its label. The paths of the finished trie are enumerated: they must be exactly the
/// labels, otherwise the error names the label.
///
/// ```
/// use ffwd_engine::constraint::token_machine::Labels;
/// use ffwd_engine::{Compiler, Constraint, Vocabulary};
///
/// # fn main() -> ffwd_engine::Result<()> {
/// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
/// # let vocab = Vocabulary::from_bytes(tokenizer)?.with_eos(vec![2]);
/// let labels = Labels::new(["sport", "science", "politics"]).several(", ").at_most(2);
/// let grammar = Compiler::new(vocab.clone()).compile(&Constraint::labels(&labels))?;
/// let mut matcher = grammar.matcher();
/// for token in vocab.encode(" science, sport")? {
///     matcher.accept_token(token)?;
/// }
/// assert!(matcher.is_terminated()); // two labels, and none twice
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Labels {
    texts: Vec<String>,
    pub(super) lead: Lead,
    /// The separator of paths, and the levels that are labels.
    pub(super) path: Option<(String, Levels)>,
    pub(super) several: Option<Several>,
}

impl Labels {
    /// Creates a list of which the output is one label.
    pub fn new<S: Into<String>>(labels: impl IntoIterator<Item = S>) -> Self {
        let texts = labels.into_iter().map(Into::into).collect();
        Labels { texts, lead: Lead::default(), path: None, several: None }
    }

    /// Reads labels from the text of a file.
    ///
    /// The text is a JSON array of strings if it begins with `[` and ends with `]`. Otherwise each
    /// line is a label, without the white space around it; blank lines are skipped.
    ///
    /// # Errors
    /// Returns an error if the array is not JSON, or if one of its elements is not a string.
    pub fn from_text(text: &str) -> Result<Self> {
        label_files::list(text).map(Labels::new)
    }

    /// Reads labels from a JSON tree.
    ///
    /// With the separator ` > `, the tree
    /// `{"Technology": {"AI": ["NLP", "Vision"]}, "Sport": null}` has the labels
    /// `Technology > AI > NLP`, `Technology > AI > Vision` and `Sport`. Objects and arrays may be
    /// nested in any way.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, or contains numbers or booleans.
    pub fn from_tree(json: &str, separator: &str) -> Result<Self> {
        Ok(Labels::new(label_files::tree(json, separator)?).paths(separator, Levels::Listed))
    }

    /// Sets the text before the first label.
    pub fn lead(self, lead: Lead) -> Self {
        Labels { lead, ..self }
    }

    /// Treats labels as paths whose parts are separated by `separator`, such as `Technology > AI`
    /// with ` > `.
    pub fn paths(self, separator: impl Into<String>, levels: Levels) -> Self {
        Labels { path: Some((separator.into(), levels)), ..self }
    }

    /// Allows one or more labels with `separator` between them, such as `, `, and none twice.
    pub fn several(self, separator: impl Into<String>) -> Self {
        let several = Several { separator: separator.into(), least: 1, most: None, repeats: false };
        Labels { several: Some(several), ..self }
    }

    /// Requires at least `labels` labels; only has an effect after [`several`](Self::several).
    pub fn at_least(mut self, labels: u32) -> Self {
        if let Some(several) = &mut self.several {
            several.least = labels;
        }
        self
    }

    /// Allows at most `labels` labels; only has an effect after [`several`](Self::several).
    pub fn at_most(mut self, labels: u32) -> Self {
        if let Some(several) = &mut self.several {
            several.most = Some(labels);
        }
        self
    }

    /// Allows a label more than once; only has an effect after [`several`](Self::several).
    pub fn with_repeats(mut self) -> Self {
        if let Some(several) = &mut self.several {
            several.repeats = true;
        }
        self
    }

    /// The texts as they were given.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Builds the trie of the labels in the tokens of a vocabulary, and proves that its paths are
    /// exactly the labels.
    ///
    /// # Errors
    /// Each error names the label:
    ///
    /// - `InvalidLabels` for an invalid list: empty, a label twice, a label with white space around
    ///   it or with the separator in it
    /// - `Tokenizer` for a label that the tokens do not decode to
    /// - `TooComplex` beyond a limit
    pub fn trie(&self, vocab: &Vocabulary) -> Result<LabelTrie> {
        LabelTrie::new(self, vocab)
    }

    /// Returns the labels that an output may have, checked and with the levels applied.
    pub(super) fn resolved(&self) -> Result<Vec<String>> {
        self.check_options()?;
        let mut places: FxHashMap<&str, usize> = FxHashMap::default();
        if self.texts.len() > MAX_LABELS {
            return Err(too_many(self.texts.len()));
        }
        for (at, text) in self.texts.iter().enumerate() {
            self.check(text, at)?;
            if let Some(first) = places.insert(text, at) {
                let message =
                    format!("the label {text:?} stands there twice, as {} and {}", first + 1, at + 1);
                return Err(invalid(message).hint("labels are counted from 1; leave one of them out"));
            }
        }
        let resolved = match &self.path {
            Some((separator, Levels::Leaves)) => leaves(&self.texts, separator),
            Some((separator, Levels::All)) => with_ancestors(&self.texts, separator)?,
            _ => self.texts.clone(),
        };
        if resolved.is_empty() {
            return Err(invalid("there are no labels".into()).hint("give at least one"));
        }
        self.check_count(resolved.len())?;
        Ok(resolved)
    }

    fn check(&self, text: &str, at: usize) -> Result<()> {
        let place = at + 1;
        if text.is_empty() {
            return Err(invalid(format!("label {place} is empty")));
        }
        if text.trim() != text {
            let message = format!("label {place}, {text:?}, begins or ends with white space");
            return Err(invalid(message).hint("what stands in front of labels is said by the lead"));
        }
        if text.len() > MAX_LABEL_BYTES {
            let start: String = text.chars().take(40).collect();
            let message = format!(
                "label {place}, which begins {start:?}, has {} bytes, at most {MAX_LABEL_BYTES} are possible",
                text.len()
            );
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        if let Some(several) = self.several.as_ref().filter(|s| text.contains(&s.separator)) {
            let message = format!("the label {text:?} contains the separator {:?}", several.separator);
            return Err(invalid(message).hint("choose a separator that no label contains"));
        }
        let Some((separator, _)) = &self.path else { return Ok(()) };
        if text.split(separator.as_str()).any(|part| part.trim().is_empty()) {
            return Err(invalid(format!("the path {text:?} has an empty part"))
                .hint(format!("parts stand between {separator:?}")));
        }
        Ok(())
    }

    fn check_options(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        if self.path.as_ref().is_some_and(|p| p.0.is_empty()) {
            return wrong("the separator of paths is empty".into());
        }
        let Some(several) = &self.several else { return Ok(()) };
        if several.separator.is_empty() {
            return wrong("the separator of labels is empty".into());
        }
        if several.least == 0 {
            return wrong("at least 0 labels: an output without any is not possible here".into());
        }
        if let Some(most) = several.most.filter(|&most| most < several.least) {
            return wrong(format!("at least {} and at most {most} labels are none at all", several.least));
        }
        Ok(())
    }

    fn check_count(&self, labels: usize) -> Result<()> {
        let Some(several) = self.several.as_ref().filter(|s| !s.repeats && s.least as usize > labels) else {
            return Ok(());
        };
        let message = format!("at least {} labels, and none twice, of {labels}", several.least);
        Err(Error::new(ErrorKind::Unsatisfiable, message))
    }
}

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidLabels, message)
}

fn too_many(labels: usize) -> Error {
    let message = format!("{labels} labels, at most {MAX_LABELS} are possible");
    Error::new(ErrorKind::TooComplex, message)
}

/// Returns the proper ancestors of a path, the topmost first.
fn ancestors<'a>(path: &'a str, separator: &'a str) -> impl Iterator<Item = &'a str> {
    path.match_indices(separator).map(|(at, _)| &path[..at])
}

fn leaves(paths: &[String], separator: &str) -> Vec<String> {
    let inner: FxHashSet<&str> = paths.iter().flat_map(|path| ancestors(path, separator)).collect();
    paths.iter().filter(|path| !inner.contains(path.as_str())).cloned().collect()
}

fn with_ancestors(paths: &[String], separator: &str) -> Result<Vec<String>> {
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let mut all = Vec::new();
    for path in paths {
        for place in ancestors(path, separator).chain([path.as_str()]) {
            if seen.insert(place) {
                all.push(place.to_owned());
            }
        }
        if all.len() > MAX_LABELS {
            return Err(too_many(all.len()));
        }
    }
    Ok(all)
}
