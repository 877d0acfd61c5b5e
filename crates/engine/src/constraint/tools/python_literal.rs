//! Literals of Python, converted to JSON: `True`, `None`, `['a', 1]`, `{'b': (2,)}`.
//!
//! Models that saw much Python write such values where they should write JSON.
//!
//! # Cost
//! One pass over the text; nesting beyond [`MAX_DEPTH`] is not read.
//!
//! # Alternatives considered
//! Replacing words in the text was rejected: it would also replace them inside strings.

use serde_json::{Map, Value};

/// Maximum nesting of lists and dictionaries.
const MAX_DEPTH: usize = 64;

/// Converts a literal to JSON text; `None` if it is not one.
pub(super) fn to_json(text: &str) -> Option<String> {
    let mut reader = LiteralReader { rest: text };
    let value = reader.value(0)?;
    reader.blanks();
    reader.rest.is_empty().then(|| value.to_string())
}

/// A name, and its arguments as an object.
type Call<'a> = (&'a str, Value);

/// Reads calls at the beginning of a text whose arguments are literals with names: one, or a list.
/// Returns them with the text behind them.
pub(super) fn calls(text: &str) -> Option<(Vec<Call<'_>>, &str)> {
    let mut reader = LiteralReader { rest: text };
    reader.blanks();
    let mut found = Vec::new();
    if reader.rest.starts_with('[') {
        reader.items(']', |reader| {
            found.push(reader.call()?);
            Some(())
        })?;
    } else {
        found.push(reader.call()?);
    }
    (!found.is_empty()).then_some((found, reader.rest))
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
        self.rest.starts_with('(').then_some(())?;
        let mut arguments = Map::new();
        self.items(')', |reader| {
            let name = reader.name()?.to_owned();
            reader.eat('=').then_some(())?;
            arguments.insert(name, reader.value(0)?);
            Some(())
        })?;
        Some((name, Value::Object(arguments)))
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

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blanks();
        if depth > MAX_DEPTH {
            return None;
        }
        match self.rest.chars().next()? {
            '\'' | '"' => self.string().map(Value::String),
            '[' => self.list(']', depth),
            '(' => self.list(')', depth),
            '{' => self.dictionary(depth),
            _ => self.word(),
        }
    }

    /// Reads a name or a number.
    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "+-._".contains(c)));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let value = match word {
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            "None" | "null" => Value::Null,
            number => Value::Number(serde_json::from_str(number).ok()?),
        };
        self.rest = rest;
        Some(value)
    }

    fn list(&mut self, close: char, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        let comma = self.items(close, |reader| {
            items.push(reader.value(depth + 1)?);
            Some(())
        })?;
        // In parentheses, one value without a comma is that value.
        match (close, items.len()) {
            (')', 1) if !comma => items.pop(),
            _ => Some(Value::Array(items)),
        }
    }

    fn dictionary(&mut self, depth: usize) -> Option<Value> {
        let mut members = Map::new();
        self.items('}', |reader| {
            let Value::String(name) = reader.value(depth + 1)? else { return None };
            reader.eat(':').then_some(())?;
            members.insert(name, reader.value(depth + 1)?);
            Some(())
        })?;
        Some(Value::Object(members))
    }

    /// Reads items up to a closing bracket; returns whether a comma follows the last one.
    fn items(&mut self, close: char, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<bool> {
        self.rest = &self.rest[1..];
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
            ("-1.5e3", "-1500.0"),
            ("['a', \"b\", 1,]", r#"["a","b",1]"#),
            ("{'k': [None, (2,)], \"l\": {}}", r#"{"k":[null,[2]],"l":{}}"#),
            ("(1, 2)", "[1,2]"),
            ("(1)", "1"),
            ("()", "[]"),
            (r#"['It\'s \x41\u00e9\q']"#, r#"["It's Aé\\q"]"#),
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
