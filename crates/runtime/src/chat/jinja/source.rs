//! The text of a template before it is parsed: line ends, and the tag `generation`.
//!
//! Jinja reads every kind of line end as a line feed. Libraries that train models add the tag
//! `{% generation %}`, which marks the text of the assistant. It becomes `{% with %}`, a block that
//! does nothing but scope variables, of the same length, so that places in errors stay right.

use std::borrow::Cow;

use ffwd_engine::text::without_mark;

/// Names of the tag, and tags of equal length that do nothing.
const TAGS: [(&str, &str); 2] = [("generation", "with      "), ("endgeneration", "endwith      ")];

/// Returns the template that `minijinja` reads.
pub(in crate::chat) fn normalize(source: &str) -> Cow<'_, str> {
    let mut source = Cow::Borrowed(without_mark(source));
    if source.contains('\r') {
        source = source.replace("\r\n", "\n").replace('\r', "\n").into();
    }
    if source.contains("generation") {
        source = without_generation(&source).into();
    }
    source
}

/// Replaces the tag where Jinja reads a tag: not in comments, raw text or strings.
fn without_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (text, tag) = rest.split_at(at);
        out.push_str(text);
        let end = match tag.as_bytes().get(1) {
            Some(b'#') => tag.find("#}").map_or(tag.len(), |end| end + 2),
            Some(b'{') => end_of_tag(tag, "}}"),
            Some(b'%') => {
                let end = end_of_tag(tag, "%}");
                match name(&tag[..end]) {
                    "raw" => end_of_raw(tag, end),
                    name => {
                        let found = TAGS.iter().find(|(tag, _)| *tag == name);
                        if let Some((name, same)) = found {
                            out.push_str(&tag[..end].replacen(name, same, 1));
                            rest = &tag[end..];
                            continue;
                        }
                        end
                    }
                }
            }
            _ => 1,
        };
        out.push_str(&tag[..end]);
        rest = &tag[end..];
    }
    out + rest
}

/// Returns what a tag says without the signs for white space: its name, if it has nothing else.
fn name(tag: &str) -> &str {
    let inner = tag.strip_prefix("{%").and_then(|tag| tag.strip_suffix("%}")).unwrap_or_default();
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    inner.strip_suffix(['-', '+']).unwrap_or(inner).trim()
}

/// Returns the offset after the `close` of a tag, outside of strings.
fn end_of_tag(tag: &str, close: &str) -> usize {
    let bytes = tag.as_bytes();
    let mut quote = None;
    let mut at = 2;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, _) if bytes[at..].starts_with(close.as_bytes()) => return at + close.len(),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Returns the offset after the tag that ends raw text.
fn end_of_raw(tag: &str, mut at: usize) -> usize {
    while let Some(open) = tag[at..].find("{%") {
        let begin = at + open;
        let Some(close) = tag[begin..].find("%}") else { break };
        let end = begin + close + 2;
        if name(&tag[begin..end]) == "endraw" {
            return end;
        }
        at = begin + 2;
    }
    tag.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_replaced_only_where_it_is_a_tag() {
        for same in [
            "{{ '{% generation %}' }}",
            "{{ \"\\\"{% generation %}\" }}",
            "{# {% generation %} #}",
            "{% raw %}{% generation %}{% endraw %}",
            "{%- raw -%}{% x %{% generation %}{%- endraw -%}",
            "{% generation x %}",
            "{% set generation = 1 %}{{ generation }}",
            "generation { generation }",
            "{% 'generation",
            "{{ generation",
            "{% raw %}{% generation %}",
            "{# generation",
        ] {
            assert_eq!(normalize(same), same);
        }
        for (tag, with) in [
            ("{% generation %}é{% endgeneration %}", "{% with       %}é{% endwith       %}"),
            ("{%-generation-%}", "{%-with      -%}"),
            ("{% raw %}{%{% endraw %}{%+ generation %}", "{% raw %}{%{% endraw %}{%+ with       %}"),
            ("{#'#}{% generation %}", "{#'#}{% with       %}"),
            ("a\r\n{%\r\ngeneration %}\rb", "a\n{%\nwith       %}\nb"),
        ] {
            assert_eq!(normalize(tag), with);
        }
        assert_eq!(normalize("\u{feff}x\r\r\n"), "x\n\n");
    }
}
