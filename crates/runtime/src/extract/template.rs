//! Templates of prompts: text with placeholders in braces.
//!
//! A placeholder on a line of its own that has no value is left out together with its line and one
//! empty line after it, so that a template can have optional parts.
//!
//! # Cost
//! A template is parsed once; rendering copies its parts.
//!
//! # Alternatives considered
//! Jinja, as in chat templates, was rejected: a prompt needs no control flow, and JSON Schemas are
//! full of braces that Jinja would read.

use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum size of a template in bytes.
const MAX_TEMPLATE: usize = 1 << 20;

/// A text with placeholders.
#[derive(Debug, Clone)]
pub struct Template {
    pieces: Vec<TemplatePart>,
    /// Names of the placeholders.
    names: &'static [&'static str],
}

#[derive(Debug, Clone, PartialEq)]
enum TemplatePart {
    Literal(String),
    /// A placeholder, by its index in the names.
    Value(usize),
}

impl Template {
    /// Parses a template, in which `{name}` is a placeholder of `names`, and `{{` and `}}` are
    /// braces.
    ///
    /// # Errors
    /// `InvalidOption`: with line and column for an unknown or repeated placeholder or a single
    /// brace, and if one of `needed` is missing. `TooComplex` for a template that is too long.
    pub fn new(text: &str, names: &'static [&'static str], needed: &[&str]) -> Result<Self> {
        if text.len() > MAX_TEMPLATE {
            let message = format!("a prompt template of {} bytes, the limit is {MAX_TEMPLATE}", text.len());
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        let mut template = Template { pieces: Vec::new(), names };
        let mut rest = text;
        let mut literal = String::new();
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let from = text.len() - rest.len() + at;
            let brace = &rest[at..at + 1];
            if rest[at + 1..].starts_with(brace) {
                literal.push_str(brace);
                rest = &rest[at + 2..];
                continue;
            }
            let name = rest[at + 1..].split_once('}').map(|found| found.0).filter(|_| brace == "{");
            let index = name.and_then(|name| names.iter().position(|known| *known == name));
            let fault = |message: String| fault(text, from, message);
            match (name, index) {
                (Some(name), Some(index)) => {
                    if template.pieces.contains(&TemplatePart::Value(index)) {
                        return Err(fault(format!("the placeholder {{{name}}} occurs twice")));
                    }
                    template.pieces.push(TemplatePart::Literal(std::mem::take(&mut literal)));
                    template.pieces.push(TemplatePart::Value(index));
                    rest = &rest[at + name.len() + 2..];
                }
                (Some(name), None) if is_word(name) => {
                    let known: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
                    let message = format!("unknown placeholder {{{name}}}");
                    return Err(fault(message)
                        .hint(format!("there are {}; write {{{{ and }}}} for braces", known.join(", "))));
                }
                _ => {
                    let message = format!("a single `{brace}`");
                    return Err(fault(message).hint("write {{ and }} for braces"));
                }
            }
        }
        literal.push_str(rest);
        template.pieces.push(TemplatePart::Literal(literal));
        for needed in needed {
            if !template.has(needed) {
                let message = format!("the template has no {{{needed}}}");
                return Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint(format!("write {{{needed}}} where it goes")));
            }
        }
        Ok(template)
    }

    /// Returns true if a placeholder occurs.
    pub fn has(&self, name: &str) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, TemplatePart::Value(i) if self.names[*i] == name))
    }

    /// Replaces the placeholders; `values` are in the order of their names.
    pub fn render(&self, values: &[&str]) -> String {
        let size = self.pieces.iter().map(|piece| match piece {
            TemplatePart::Literal(text) => text.len(),
            TemplatePart::Value(i) => values[*i].len(),
        });
        let mut out = String::with_capacity(size.sum());
        let mut skipped = false;
        for piece in &self.pieces {
            match piece {
                TemplatePart::Literal(text) if skipped => {
                    let text = text.strip_prefix('\n').unwrap_or(text);
                    out.push_str(text.strip_prefix('\n').unwrap_or(text));
                }
                TemplatePart::Literal(text) => out.push_str(text),
                TemplatePart::Value(i) => out.push_str(values[*i]),
            }
            skipped = match piece {
                TemplatePart::Value(i) => values[*i].is_empty() && (out.is_empty() || out.ends_with('\n')),
                TemplatePart::Literal(_) => false,
            };
        }
        out
    }
}

/// Returns true if a text looks like a name of a placeholder.
fn is_word(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Makes an error at a byte of the template.
fn fault(text: &str, at: usize, message: String) -> Error {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Error::new(ErrorKind::InvalidOption, message).at(Place::LineColumn(line, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["schema", "text", "more"];

    fn rendered(text: &str, values: [&str; 3]) -> String {
        Template::new(text, NAMES, &["text"]).unwrap().render(&values)
    }

    #[test]
    fn placeholders_are_replaced_once() {
        assert_eq!(rendered("a {schema}: {text}.", ["{text}", "{more}}", ""]), "a {text}: {more}}.");
        assert_eq!(rendered("{{\"a\": {text}}}", ["", "1", ""]), "{\"a\": 1}");
        assert_eq!(rendered("{{{{{text}}}}}", ["", "x", ""]), "{{x}}");
        assert_eq!(rendered("{text}", ["", "", ""]), "");
        assert_eq!(rendered("é{text}ü", ["", "ß", ""]), "éßü");
    }

    #[test]
    fn empty_parts_leave_no_gap() {
        let text = "Do this.\n\n{more}\n\nText: {text}\n";
        assert_eq!(rendered(text, ["", "x", "Now."]), "Do this.\n\nNow.\n\nText: x\n");
        assert_eq!(rendered(text, ["", "x", ""]), "Do this.\n\nText: x\n");
        assert_eq!(rendered("{more}\n{text}", ["", "x", ""]), "x");
        // Within a line nothing is left out.
        assert_eq!(rendered("a {more}\n\n{text}", ["", "x", ""]), "a \n\nx");
    }

    #[test]
    fn faults_have_a_line_and_a_hint() {
        for (text, part) in [
            ("a\nb {txt} {text}", "line 2, column 3"),
            ("{txt}", "there are {schema}, {text}, {more}"),
            ("{text} }", "single `}`"),
            ("{text} {", "single `{`"),
            ("{text} { text }", "write {{ and }}"),
            ("{text} {\"a\": 1}", "write {{ and }}"),
            ("{text} {text}", "occurs twice"),
            ("{schema}", "no {text}"),
        ] {
            let error = Template::new(text, NAMES, &["text"]).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(Template::new(&"x".repeat(MAX_TEMPLATE + 1), NAMES, &[]).is_err());
    }
}
