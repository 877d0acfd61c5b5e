//! Literals of Python, converted to JSON: `True`, `None`, `['a', 1]`, `{'b': (2,)}`.
//!
//! Models that saw much Python write such values where they should write JSON; some call functions in it.
//!
//! # Cost
//! One pass over the text; nesting beyond [`MAX_DEPTH`] is not read.
//!
//! # Alternatives considered
//! Replacing words in the text was rejected: it would also replace them inside strings.

use serde_json::{Number, Value};

/// Maximum nesting of lists and dictionaries.
const MAX_DEPTH: usize = 64;

/// Converts a literal to JSON text; `None` if it is not one.
pub(super) fn to_json(text: &str) -> Option<String> {
    let mut reader = LiteralReader { rest: text };
    let value = reader.value(0)?;
    reader.blanks();
    reader.rest.is_empty().then_some(value)
}

/// A name, and its arguments as a JSON object.
type Call<'a> = (&'a str, String);

/// Reads calls at the beginning of a text whose arguments are literals with names: one, or a list.
/// Returns them with the text behind them.
pub(super) fn calls(text: &str) -> Option<(Vec<Call<'_>>, &str)> {
    let mut reader = LiteralReader { rest: text };
    reader.blanks();
    let mut found = Vec::new();
    if reader.eat('[') {
        reader.items(']', |reader| {
            found.push(reader.call()?);
            Some(())
        })?;
    } else {
        found.push(reader.call()?);
    }
    (!found.is_empty()).then_some((found, reader.rest))
}

/// Reads the arguments of a call, behind its opening parenthesis. Returns them as a JSON object, with the
/// number of bytes up to the closing one.
pub(super) fn arguments(text: &str) -> Option<(String, usize)> {
    let mut reader = LiteralReader { rest: text };
    let arguments = reader.arguments()?;
    Some((arguments, text.len() - reader.rest.len() - 1))
}

struct LiteralReader<'a> {
    rest: &'a str,
}

impl<'a> LiteralReader<'a> {
    /// Reads a name, with dots.
    fn name(&mut self) -> Option<&'a str> {
        self.blanks();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "_.-".contains(c)));
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        (!name.is_empty()).then_some(name)
    }

    fn call(&mut self) -> Option<Call<'a>> {
        let name = self.name()?;
        self.blanks();
        self.eat('(').then_some(())?;
        Some((name, self.arguments()?))
    }

    fn arguments(&mut self) -> Option<String> {
        let mut members = Vec::new();
        self.items(')', |reader| {
            let name = Value::from(reader.name()?);
            reader.eat('=').then_some(())?;
            members.push(format!("{name}:{}", reader.value(0)?));
            Some(())
        })?;
        Some(format!("{{{}}}", members.join(",")))
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, c: char) -> bool {
        self.blanks();
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads a value; returns it as JSON.
    fn value(&mut self, depth: usize) -> Option<String> {
        self.blanks();
        if depth > MAX_DEPTH {
            return None;
        }
        match self.rest.chars().next()? {
            '\'' | '"' => self.string().map(|text| Value::from(text).to_string()),
            '[' => self.list('[', ']', depth),
            '(' => self.list('(', ')', depth),
            '{' => self.dictionary(depth),
            _ => self.word(),
        }
    }

    /// Reads a name or a number.
    fn word(&mut self) -> Option<String> {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "+-._".contains(c)));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let value = match word {
            "True" | "true" => "true",
            "False" | "false" => "false",
            "None" | "null" => "null",
            // With all of its digits.
            number => serde_json::from_str::<Number>(number).ok().map(|_| number)?,
        };
        self.rest = rest;
        Some(value.to_owned())
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<String> {
        let mut items = Vec::new();
        self.eat(open);
        let comma = self.items(close, |reader| {
            items.push(reader.value(depth + 1)?);
            Some(())
        })?;
        // In parentheses, one value without a comma is that value.
        match (close, items.len()) {
            (')', 1) if !comma => items.pop(),
            _ => Some(format!("[{}]", items.join(","))),
        }
    }

    fn dictionary(&mut self, depth: usize) -> Option<String> {
        let mut members = Vec::new();
        self.eat('{');
        self.items('}', |reader| {
            let name = reader.value(depth + 1).filter(|name| name.starts_with('"'))?;
            reader.eat(':').then_some(())?;
            members.push(format!("{name}:{}", reader.value(depth + 1)?));
            Some(())
        })?;
        Some(format!("{{{}}}", members.join(",")))
    }

    /// Reads items past a closing bracket; returns whether a comma follows the last one.
    fn items(&mut self, close: char, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<bool> {
        let (mut first, mut comma) = (true, false);
        while !self.eat(close) {
            (first || comma).then_some(())?;
            item(self)?;
            (first, comma) = (false, self.eat(','));
        }
        Some(comma)
    }

    fn string(&mut self) -> Option<String> {
        let mut chars = self.rest.chars();
        let quote = chars.next()?;
        let mut text = String::new();
        loop {
            match chars.next()? {
                c if c == quote => break,
                '\\' => match chars.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    c @ ('\\' | '\'' | '"') => text.push(c),
                    digits @ ('x' | 'u' | 'U') => {
                        let count = [('x', 2), ('u', 4), ('U', 8)].iter().find(|d| d.0 == digits)?.1;
                        let code: String = chars.by_ref().take(count).collect();
                        let code = u32::from_str_radix(&code, 16).ok().filter(|_| code.len() == count)?;
                        text.push(char::from_u32(code)?);
                    }
                    // Python keeps a backslash that escapes nothing.
                    c => text.extend(['\\', c]),
                },
                c => text.push(c),
            }
        }
        self.rest = chars.as_str();
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_converted() {
        for (text, expected) in [
            ("True", "true"),
            (" False ", "false"),
            ("None", "null"),
            ("-1.5e3", "-1.5e3"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("['a', \"b\", 1,]", r#"["a","b",1]"#),
            ("{'k': [None, (2,)], \"l\": {}}", r#"{"k":[null,[2]],"l":{}}"#),
            ("(1, 2)", "[1,2]"),
            ("(1)", "1"),
            ("()", "[]"),
            (r#"['It\'s \x41\u00e9\q\f']"#, r#"["It's Aé\\q\f"]"#),
        ] {
            assert_eq!(to_json(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_literals() {
        for text in
            ["", "Truer", "yes", "[1 2]", "[,]", "{1: 2}", "{'a' 1}", "'a", "['a'", "1 2", "(", r"'\x4'"]
        {
            assert_eq!(to_json(text), None, "{text}");
        }
        assert_eq!(to_json(&"[".repeat(100_000)), None);
    }
}
