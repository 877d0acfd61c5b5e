//! Parser of a subset of the grammar notation of Lark.
//!
//! ```text
//! start: greeting ("," NAME)* "!"       // rules in lower case
//! ?greeting: "hello"i -> english | /sal(ve|ut)/ -> other
//! NAME: "A".."Z" LETTER~1..9            // TERMINALS in upper case
//! %import common (LETTER, WS)
//! %ignore WS
//! ```
//!
//! | written | meaning |
//! |---|---|
//! | `"text"`, `"text"i` | this text, in any case with `i` |
//! | `/regex/` with flags `i s u` | a regular expression without anchors and look-around |
//! | `"a".."z"` | one character of a range |
//! | `( )`, `[ ]`, <code>&#124;</code> | group, optional group, alternatives |
//! | `* + ?`, `~3`, `~3..5` | repetitions |
//! | `%ignore` | text that may occur before, after and between terminals |
//! | `%import common.NAME`, `-> OTHER`, `common (A, B)` | terminals of Lark's library |
//! | `%json { ... }` | a JSON value that is valid against the schema, written compactly |
//!
//! - `?name`, `!name`, `_name` and `-> alias` shape parse trees. There are no trees here: they are
//!   read and have no effect.
//! - Priorities (`NAME.2`) choose between readings. All readings are allowed here, so priorities
//!   are ignored with a warning.
//! - Templates, `%declare`, `%extend` and `%override` are refused.
//! - `%llguidance { ... }`, with which some grammars begin, is read. Its options have no effect here,
//!   and a warning names them.
//!
//! **Ignored text** may occur wherever a terminal of a rule begins or ends, any number of times,
//! and at both ends of the output. It never occurs inside a terminal. Strings and patterns in rules
//! are terminals.
//!
//! A definition ends where a line begins with the next one. Line breaks mean nothing else.
//!
//! # Cost
//! Parsing is linear in the text.
//!
//! # Alternatives considered
//! Imports of files were rejected: a constraint is one text.

use super::cursor::{Cursor, Span, fault};
use super::expr_builder::ExprBuilder;
use super::rules::{Counts, Expr, ExprId, Grammar};
use super::{check_length, compile, regex};
use crate::constraint::ir::{Ir, Quoting};
use crate::constraint::{Policy, json_schema};
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// Words after `%` that begin a line of their own.
const DIRECTIVES: [&str; 6] = ["ignore", "import", "declare", "extend", "override", "llguidance"];

/// The terminals that can be imported from `common`, as regular expressions.
const COMMON_TERMINALS: [(&str, &str); 20] = [
    ("INT", "[0-9]+"),
    ("SIGNED_INT", "[+-]?[0-9]+"),
    ("DECIMAL", r"[0-9]+\.[0-9]*|\.[0-9]+"),
    ("FLOAT", r"[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
    ("SIGNED_FLOAT", r"[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"),
    ("NUMBER", r"[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
    ("SIGNED_NUMBER", r"[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"),
    ("DIGIT", "[0-9]"),
    ("HEXDIGIT", "[a-fA-F0-9]"),
    ("LETTER", "[A-Za-z]"),
    ("UCASE_LETTER", "[A-Z]"),
    ("LCASE_LETTER", "[a-z]"),
    ("WORD", "[A-Za-z]+"),
    ("CNAME", "[_A-Za-z][_A-Za-z0-9]*"),
    ("WS", r"[ \t\f\r\n]+"),
    ("WS_INLINE", r"[ \t]+"),
    ("CR", r"\r"),
    ("LF", r"\n"),
    ("NEWLINE", r"(\r?\n)+"),
    // Quotes inside are escaped; a backslash before the closing quote would escape it.
    ("ESCAPED_STRING", r#""([^"\\\n]|\\[^\n])*""#),
];

/// Parses a grammar in the Lark subset and returns its language.
///
/// # Errors
/// Errors of the grammar have a span, line and column:
///
/// - [`ErrorKind::InvalidPattern`] for text that does not parse and for names that are undefined or
///   defined twice
/// - [`ErrorKind::Unsupported`] for features outside of the subset
/// - [`ErrorKind::Unsatisfiable`] if the grammar matches no text
/// - [`ErrorKind::TooComplex`] above a limit
///
/// Errors of an embedded schema are those of a JSON Schema, with the pointer into the
/// schema.
///
/// `policy` is for the JSON values of its schemas, and strings with `x-verbatim` in them copy from
/// `source`.
pub(in crate::constraint) fn parse_from(text: &str, policy: &Policy, source: Quoting<'_>) -> Result<Ir> {
    compile(grammar(text, policy, source)?)
}

/// Parses a grammar in the Lark subset into rules.
pub(super) fn grammar(text: &str, policy: &Policy, source: Quoting<'_>) -> Result<Grammar> {
    check_length(text)?;
    let (cursor, grammar) = (Cursor::new(text), Grammar::new(text));
    let mut parser = LarkParser { cursor, grammar, policy, source, in_rule: false, priorities: 0 };
    // A byte order mark is not part of the grammar.
    parser.cursor.eat("\u{feff}");
    parser.blanks();
    while parser.cursor.peek().is_some() {
        if parser.cursor.peek() == Some('%') {
            parser.directive()?;
        } else {
            parser.definition()?;
        }
        parser.blanks();
    }
    if parser.priorities > 0 {
        let message = "priorities are ignored: every reading is allowed";
        parser.grammar.warnings.push(Warning::new(WarningKind::IgnoredPriority, message));
    }
    parser.grammar.finish("start")?;
    Ok(parser.grammar)
}

struct LarkParser<'a> {
    cursor: Cursor<'a>,
    grammar: Grammar,
    /// Encoding policy for the values of schemas.
    policy: &'a Policy,
    /// Source text that `x-verbatim` refers to in schemas.
    source: Quoting<'a>,
    /// True while a rule is read, whose strings are terminals; false while a terminal is read.
    in_rule: bool,
    priorities: usize,
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_').starts_with(|c: char| c.is_ascii_uppercase())
}

impl<'a> LarkParser<'a> {
    fn blanks(&mut self) {
        self.cursor.skip_blanks("//");
    }

    fn span(&self, start: usize) -> Span {
        (start, self.cursor.pos)
    }

    fn unsupported(&self, message: &str, start: usize, hint: &str) -> Error {
        self.grammar.fault(ErrorKind::Unsupported, message, self.span(start), hint)
    }

    fn refuse_template(&self, start: usize) -> Result<()> {
        match self.cursor.peek() {
            Some('{') => {
                Err(self.unsupported("templates are not supported", start, "write the rule out for each use"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a definition or a directive begins here: only at the start of a line.
    fn at_definition(&self) -> bool {
        if !self.cursor.at_line_start() {
            return false;
        }
        let mut ahead = self.cursor.clone();
        if ahead.eat("%") {
            return DIRECTIVES.iter().any(|word| ahead.eat(word));
        }
        ahead.take_while(|c| c == '?' || c == '!');
        if ahead.take_while(in_name).is_empty() {
            return false;
        }
        if ahead.eat(".") {
            ahead.take_while(|c| c == '-' || c.is_ascii_digit());
        }
        if ahead.peek() == Some('{') {
            // The parameters of a template.
            ahead.take_while(|c| c != '}' && c != '\n');
            ahead.eat("}");
        }
        ahead.take_while(|c| c == ' ' || c == '\t');
        ahead.peek() == Some(':')
    }

    fn definition(&mut self) -> Result<()> {
        self.cursor.take_while(|c| c == '?' || c == '!');
        let start = self.cursor.pos;
        let name = self.cursor.take_while(in_name);
        let span = self.span(start);
        if name.is_empty() {
            return Err(self.cursor.unexpected().hint("a rule is written `name: ...`"));
        }
        if self.cursor.eat(".") {
            self.cursor.eat("-");
            let digits = self.cursor.take_while(|c| c.is_ascii_digit());
            if digits.is_empty() {
                return Err(self.cursor.unexpected().hint("a priority is a number: `name.2: ...`"));
            }
            self.priorities += 1;
        }
        self.refuse_template(start)?;
        self.blanks();
        if !self.cursor.eat(":") {
            return Err(self.cursor.unexpected().hint("a rule is written `name: ...`"));
        }
        if !name.trim_start_matches('_').starts_with(|c: char| c.is_ascii_alphabetic()) {
            let hint = "such as `rule_1`";
            return Err(self.cursor.invalid("a name must have a letter before its digits", span, hint));
        }
        self.in_rule = !is_terminal(name);
        let body = self.alternatives(start)?;
        self.grammar.define(name, body, span)
    }

    /// Reads everything up to the next definition.
    fn alternatives(&mut self, start: usize) -> Result<ExprId> {
        let mut out = ExprBuilder::new(start);
        loop {
            self.blanks();
            let Some(c) = self.cursor.peek() else { break };
            if self.at_definition() {
                break;
            }
            self.element(c, &mut out)?;
        }
        out.finish(&mut self.grammar)
    }

    fn element(&mut self, c: char, out: &mut ExprBuilder) -> Result<()> {
        let start = self.cursor.pos;
        let atom = match c {
            '"' => self.string()?,
            '/' => self.regex()?,
            '%' => self.json()?,
            _ if in_name(c) => self.reference()?,
            _ => {
                self.cursor.pos += c.len_utf8();
                match c {
                    '|' => out.alternate(&mut self.grammar),
                    '(' => out.open(start, ')'),
                    '[' => out.open(start, ']'),
                    ')' | ']' => out.close(c, start, &mut self.grammar)?,
                    '-' if self.cursor.eat(">") => self.alias()?,
                    '*' | '+' | '?' | '~' => {
                        let counts = self.repetition(c)?;
                        out.repeat(counts, self.span(start), &mut self.grammar)?;
                    }
                    _ => {
                        self.cursor.pos = start;
                        let hint = "literal text stands in double quotes, a definition begins a line";
                        return Err(self.cursor.unexpected().hint(hint));
                    }
                }
                return Ok(());
            }
        };
        out.item(atom);
        Ok(())
    }

    fn alias(&mut self) -> Result<()> {
        self.blanks();
        if self.cursor.take_while(in_name).is_empty() {
            return Err(self.cursor.unexpected().hint("a name follows `->`"));
        }
        Ok(())
    }

    fn repetition(&mut self, c: char) -> Result<Counts> {
        match c {
            '*' => return Ok((0, None)),
            '+' => return Ok((1, None)),
            '?' => return Ok((0, Some(1))),
            _ => {}
        }
        let hint = "write `~3` or `~3..5`";
        self.blanks();
        let Some(min) = self.cursor.number() else { return Err(self.cursor.unexpected().hint(hint)) };
        self.cursor.take_while(|c| c == ' ' || c == '\t');
        if !self.cursor.eat("..") {
            return Ok((min, Some(min)));
        }
        self.cursor.take_while(|c| c == ' ' || c == '\t');
        match self.cursor.number() {
            Some(max) => Ok((min, Some(max))),
            None => Err(self.cursor.unexpected().hint(hint)),
        }
    }

    /// Inside a rule: marks a terminal, after which ignored text may follow.
    fn token(&mut self, expr: ExprId) -> ExprId {
        if self.in_rule { self.grammar.push(Expr::Token(expr)) } else { expr }
    }

    fn reference(&mut self) -> Result<ExprId> {
        let start = self.cursor.pos;
        let name = self.cursor.take_while(in_name);
        self.refuse_template(start)?;
        let terminal = is_terminal(name);
        if !self.in_rule && !terminal {
            let message = format!("a terminal refers to the rule `{name}`");
            let hint = "terminals (in upper case) may refer to terminals only";
            return Err(self.cursor.invalid(message, self.span(start), hint));
        }
        let rule = self.grammar.rule(name, (start, self.cursor.pos));
        let expr = self.grammar.push(Expr::Rule(rule));
        Ok(if terminal { self.token(expr) } else { expr })
    }

    fn string(&mut self) -> Result<ExprId> {
        let start = self.cursor.pos;
        let text = self.cursor.string()?;
        let expr = if self.cursor.rest().starts_with("..") {
            self.range(&text, start)?
        } else if self.flags(start, "i")?.0 {
            regex::any_case(&text, &mut self.grammar)
        } else {
            self.grammar.push(Expr::Literal(text.into_bytes()))
        };
        Ok(self.token(expr))
    }

    fn range(&mut self, low: &str, start: usize) -> Result<ExprId> {
        self.cursor.eat("..");
        if self.cursor.peek() != Some('"') {
            return Err(self.cursor.unexpected().hint("a range is written `\"a\"..\"z\"`"));
        }
        let high = self.cursor.string()?;
        let single = |text: &str| {
            let mut chars = text.chars();
            chars.next().filter(|_| chars.next().is_none())
        };
        match (single(low), single(&high)) {
            (Some(lo), Some(hi)) if lo <= hi => Ok(self.grammar.push(Expr::Class(vec![(lo, hi)]))),
            _ => Err(self.cursor.invalid(
                "not a range",
                self.span(start),
                "each end is one character, the smaller one first",
            )),
        }
    }

    /// Reads the flags after a string or pattern; returns whether `i` and `s` are among them.
    fn flags(&mut self, start: usize, known: &str) -> Result<(bool, bool)> {
        let flags = self.cursor.take_while(|c| c.is_ascii_alphabetic());
        if let Some(unknown) = flags.chars().find(|&c| !known.contains(c)) {
            let message = format!("the flag `{unknown}` is not supported here");
            return Err(self.unsupported(&message, start, &format!("the flags are: {known}")));
        }
        Ok((flags.contains('i'), flags.contains('s')))
    }

    fn regex(&mut self) -> Result<ExprId> {
        let start = self.cursor.pos;
        self.cursor.pos += 1;
        let mut pattern = String::new();
        loop {
            match self.cursor.bump() {
                Some('/') => break,
                Some('\\') if self.cursor.eat("/") => pattern.push('/'),
                Some('\\') => {
                    pattern.push('\\');
                    pattern.extend(self.cursor.bump());
                }
                Some(c) if c != '\n' => pattern.push(c),
                _ => {
                    let hint = "close it with `/`; comments begin with `//`";
                    return Err(self.cursor.invalid("unclosed pattern", (start, start + 1), hint));
                }
            }
        }
        let flags = self.flags(start, "isu")?;
        let expr = regex::expression(&pattern, flags, self.span(start), &mut self.grammar)?;
        Ok(self.token(expr))
    }

    /// Reads an embedded JSON Schema.
    fn json(&mut self) -> Result<ExprId> {
        let start = self.cursor.pos;
        self.cursor.pos += 1;
        let word = self.cursor.take_while(in_name);
        if word != "json" {
            let message = format!("`%{word}` is not supported here");
            return Err(self.unsupported(&message, start, "inside of a rule there is `%json { ... }`"));
        }
        if !self.in_rule {
            return Err(self.unsupported("`%json` in a terminal", start, "put it into a rule (lower case)"));
        }
        self.cursor.take_while(char::is_whitespace);
        let Some(length) = object_length(self.cursor.rest()) else {
            let hint = "write `%json { ... }` with a JSON Schema";
            return Err(self.cursor.invalid("`%json` needs a JSON object", self.span(start), hint));
        };
        let schema = &self.cursor.rest()[..length];
        let ir = json_schema::parse_from(schema, self.policy, self.source).map_err(|error| {
            self.cursor.pos += length;
            let place = fault(ErrorKind::InvalidSchema, "", &self.grammar.text, self.span(start));
            place.places().iter().cloned().fold(error, Error::at)
        })?;
        self.cursor.pos += length;
        self.grammar.warnings.extend(ir.warnings.iter().cloned());
        self.grammar.foreign.push(ir);
        let expr = self.grammar.push(Expr::Foreign(self.grammar.foreign.len() - 1));
        Ok(self.token(expr))
    }

    fn directive(&mut self) -> Result<()> {
        let start = self.cursor.pos;
        self.cursor.pos += 1;
        let word = self.cursor.take_while(in_name);
        match word {
            "ignore" => {
                self.in_rule = false;
                let body = self.alternatives(start)?;
                let span = self.span(start);
                let rule = self.grammar.anonymous("(ignored text)", body, span);
                self.grammar.ignored.push(rule);
                Ok(())
            }
            "import" => self.import(),
            "llguidance" => self.options(start),
            _ => {
                let message = format!("`%{word}` is not supported");
                let hint = "there are `%ignore`, `%import common.NAME` and `%json`";
                Err(self.unsupported(&message, start, hint))
            }
        }
    }

    /// Reads the options that a grammar may begin with.
    fn options(&mut self, start: usize) -> Result<()> {
        self.cursor.take_while(char::is_whitespace);
        let length = object_length(self.cursor.rest()).unwrap_or(0);
        let text = &self.cursor.rest()[..length];
        let Ok(serde_json::Value::Object(options)) = serde_json::from_str(text) else {
            let hint = "write `%llguidance {}`";
            return Err(self.cursor.invalid("`%llguidance` needs a JSON object", self.span(start), hint));
        };
        self.cursor.pos += length;
        if !options.is_empty() {
            let names: Vec<&str> = options.keys().map(String::as_str).collect();
            let message = format!("options of `%llguidance` have no effect: {}", names.join(", "));
            self.grammar.warnings.push(Warning::new(WarningKind::UnknownMember, message));
        }
        Ok(())
    }

    fn import(&mut self) -> Result<()> {
        let blank = |c: char| c == ' ' || c == '\t';
        self.cursor.take_while(blank);
        let start = self.cursor.pos;
        let module = self.cursor.take_while(|c| in_name(c) || c == '.');
        self.cursor.take_while(blank);
        if module == "common" && self.cursor.eat("(") {
            loop {
                self.blanks();
                let at = self.cursor.pos;
                let name = self.cursor.take_while(in_name);
                self.import_as(name, name, at)?;
                self.blanks();
                if !self.cursor.eat(",") {
                    break;
                }
            }
            return if self.cursor.eat(")") { Ok(()) } else { Err(self.cursor.unexpected()) };
        }
        let Some(name) = module.strip_prefix("common.") else {
            let message = "only terminals of `common` can be imported";
            return Err(self.unsupported(message, start, "write `%import common.NAME`"));
        };
        if !self.cursor.eat("->") {
            return self.import_as(name, name, start);
        }
        self.cursor.take_while(blank);
        let alias = self.cursor.take_while(in_name);
        if !is_terminal(alias) {
            let hint = "the names of terminals are in upper case";
            return Err(self.cursor.invalid("not the name of a terminal", self.span(start), hint));
        }
        self.import_as(name, alias, start)
    }

    fn import_as(&mut self, name: &str, alias: &str, start: usize) -> Result<()> {
        let span = self.span(start);
        let Some((_, pattern)) = COMMON_TERMINALS.iter().find(|terminal| terminal.0 == name) else {
            let message = format!("`common` has no terminal `{name}`");
            let hint = format!("it has {}", COMMON_TERMINALS.map(|terminal| terminal.0).join(", "));
            return Err(self.unsupported(&message, start, &hint));
        };
        let body = regex::expression(pattern, (false, false), span, &mut self.grammar)?;
        self.grammar.define(alias, body, span)?;
        let rule = self.grammar.rule(alias, span);
        self.grammar.rules[rule as usize].implied = true;
        Ok(())
    }
}

/// Returns the length in bytes of the JSON object at the start of `text`, found by its brackets.
fn object_length(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, b) in text.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (b == b'}').then_some(at + 1);
        }
    }
    None
}
