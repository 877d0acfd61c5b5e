//! Parser of GBNF, the grammar notation of llama.cpp.
//!
//! ```text
//! # a comment
//! root  ::= "yes" | "no" ", " (word " "?){1,5}
//! word  ::= [a-zA-Z]+ | [^\x00-\x7F] .
//! ```
//!
//! A definition is `name ::= alternatives` and ends where the next `name ::=` begins, so line
//! breaks mean nothing. Names consist of letters, digits, `-` and `_`. The output must match
//! `root`.
//!
//! - Strings and classes know the escapes `\n \t \r \\ \" \xHH \uHHHH \UHHHHHHHH`, whose digits are
//!   a code point, and a backslash before punctuation.
//! - `.` is any character and `[^...]` any character but these, both including line breaks.
//! - `* + ?` and `{m} {m,} {m,n} {,n}` repeat the item before them.
//! - `<name>` is a token, by its text with the brackets. It means that text. `!<name>*` and
//!   `!<name>+` are any texts that do not contain it (`other_tokens`). Tokens by number, `<[7]>`, are
//!   refused, because a grammar knows no vocabulary.
//!
//! # Cost
//! Parsing takes time linear in the text.
//!
//! # Alternatives considered
//! Single quotes and `=`, which other notations accept, were rejected: a grammar that works here
//! should work in llama.cpp.

use super::cursor::Cursor;
use super::expr_builder::ExprBuilder;
use super::rules::{Counts, Expr, Grammar};
use super::{check_length, compile, other_tokens};
use crate::char_lang::char_class::{self, ANY_CHAR};
use crate::constraint::ir::Ir;
use crate::constraint::regular::without;
use crate::error::{Error, ErrorKind, Result};

/// Parses a GBNF grammar and returns its language.
///
/// # Errors
/// All errors have a span, line and column: `InvalidPattern` for text that does not parse and for
/// names that are undefined or defined twice, `Unsatisfiable` if the grammar matches no text,
/// `TooComplex` above a limit.
pub(crate) fn parse(text: &str) -> Result<Ir> {
    compile(grammar(text)?)
}

/// Parses a GBNF grammar into rules.
pub(super) fn grammar(text: &str) -> Result<Grammar> {
    check_length(text)?;
    let mut parser = GbnfParser { cursor: Cursor::new(text), grammar: Grammar::new(text) };
    // A byte order mark is not part of the grammar.
    parser.cursor.eat("\u{feff}");
    parser.blanks();
    while parser.cursor.peek().is_some() {
        parser.definition()?;
    }
    parser.grammar.finish("root")?;
    other_tokens::resolve(&mut parser.grammar)?;
    Ok(parser.grammar)
}

struct GbnfParser<'a> {
    cursor: Cursor<'a>,
    grammar: Grammar,
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

impl<'a> GbnfParser<'a> {
    fn blanks(&mut self) {
        self.cursor.skip_blanks(&["#"]);
    }

    /// Reads a name if one is next; the flag is true if the name is defined here.
    fn name(&mut self) -> (&'a str, bool) {
        let name = self.cursor.take_while(in_name);
        let mut ahead = self.cursor.clone();
        ahead.take_while(|c| c == ' ' || c == '\t');
        (name, ahead.rest().starts_with("::="))
    }

    fn definition(&mut self) -> Result<()> {
        let start = self.cursor.pos;
        let (name, defined) = self.name();
        let span = (start, self.cursor.pos);
        if name.is_empty() || !defined {
            let hint = "a rule is written `name ::= ...`";
            return Err(match name.is_empty() {
                true => self.cursor.unexpected().hint(hint),
                false => self.cursor.invalid("a definition is missing here", span, hint),
            });
        }
        self.blanks();
        self.cursor.eat("::=");
        let mut out = ExprBuilder::new(start);
        loop {
            self.blanks();
            let Some(c) = self.cursor.peek() else { break };
            if in_name(c) {
                let before = self.cursor.pos;
                let (name, defined) = self.name();
                if defined {
                    self.cursor.pos = before;
                    break;
                }
                let rule = self.grammar.rule(name, (before, self.cursor.pos));
                let expr = self.grammar.push(Expr::Rule(rule));
                out.item(expr);
            } else {
                self.element(c, &mut out)?;
            }
        }
        let body = out.finish(&mut self.grammar)?;
        self.grammar.define(name, body, span)
    }

    /// Reads any part of a definition except a name; it begins with `c`.
    fn element(&mut self, c: char, out: &mut ExprBuilder) -> Result<()> {
        let start = self.cursor.pos;
        let expr = match c {
            '"' => Expr::Literal(self.cursor.string()?.into_bytes()),
            '[' => Expr::Class(self.class()?),
            '.' => {
                self.cursor.pos += 1;
                Expr::Class(vec![ANY_CHAR])
            }
            '<' => Expr::Literal(self.token()?.as_bytes().to_vec()),
            '!' => {
                self.cursor.pos += 1;
                if self.cursor.peek() != Some('<') {
                    return Err(self.cursor.unexpected().hint("after `!` stands a token, such as `!<end>`"));
                }
                let token = self.token()?;
                let span = (start, self.cursor.pos);
                let hint = "write the text that may stand here as a class";
                let texts = without(token, true)
                    .map_err(|e| self.grammar.fault(e.kind(), e.message(), span, hint))?;
                self.grammar.foreign.push(texts);
                Expr::OtherThan(self.grammar.foreign.len() - 1)
            }
            '|' => {
                self.cursor.pos += 1;
                out.alternate(&mut self.grammar);
                return Ok(());
            }
            '(' => {
                self.cursor.pos += 1;
                out.open(start, ')');
                return Ok(());
            }
            ')' => {
                self.cursor.pos += 1;
                return out.close(')', start, &mut self.grammar);
            }
            '*' | '+' | '?' | '{' => {
                let counts = self.repetition(c)?;
                return out.repeat(counts, (start, self.cursor.pos), &mut self.grammar);
            }
            _ => return Err(self.unexpected(c)),
        };
        let expr = self.grammar.push(expr);
        out.item(expr);
        Ok(())
    }

    /// Reads a token in angle brackets and returns its text, with them.
    fn token(&mut self) -> Result<&'a str> {
        let start = self.cursor.pos;
        let rest = self.cursor.rest();
        let line = rest.split(['\n', '\r']).next().unwrap_or(rest);
        let Some(end) = line.find('>').filter(|&end| end > 1) else {
            let hint = "a token is written `<name>`; other text stands in double quotes";
            return Err(self.cursor.invalid("not a token", (start, start + 1), hint));
        };
        self.cursor.pos += end + 1;
        let token = &rest[..=end];
        if token.starts_with("<[") {
            let message = "a token by its number, which only a vocabulary knows";
            let hint = "write the text of the token, such as `<name>`";
            return Err(self.grammar.fault(ErrorKind::Unsupported, message, (start, self.cursor.pos), hint));
        }
        Ok(token)
    }

    fn unexpected(&self, c: char) -> Error {
        let error = self.cursor.unexpected();
        match c {
            '\'' => error.hint("strings stand in double quotes"),
            '/' => error.hint("comments begin with `#`"),
            _ => error.hint("literal text stands in double quotes"),
        }
    }

    fn repetition(&mut self, c: char) -> Result<Counts> {
        let start = self.cursor.pos;
        self.cursor.pos += 1;
        match c {
            '*' => return Ok((0, None)),
            '+' => return Ok((1, None)),
            '?' => return Ok((0, Some(1))),
            _ => {}
        }
        let blank = |c: char| c == ' ' || c == '\t';
        self.cursor.take_while(blank);
        let min = self.cursor.number();
        self.cursor.take_while(blank);
        let max = if self.cursor.eat(",") {
            self.cursor.take_while(blank);
            self.cursor.number()
        } else {
            min
        };
        self.cursor.take_while(blank);
        if !self.cursor.eat("}") || min.is_none() && max.is_none() {
            let hint = "write `{2}`, `{2,}`, `{2,4}` or `{,4}`";
            return Err(self.cursor.invalid("not a repetition", (start, self.cursor.pos), hint));
        }
        Ok((min.unwrap_or(0), max))
    }

    /// Reads a class and returns its character ranges; the opening bracket is next.
    fn class(&mut self) -> Result<Vec<(char, char)>> {
        let start = self.cursor.pos;
        self.cursor.pos += 1;
        let negated = self.cursor.eat("^");
        let mut ranges = Vec::new();
        loop {
            let at = self.cursor.pos;
            let lo = match self.cursor.peek() {
                None | Some('\n') => {
                    let hint = "close it with `]`; a line break is written `\\n`";
                    return Err(self.cursor.invalid("unclosed class", (start, start + 1), hint));
                }
                Some(']') => break,
                Some(_) => self.member()?,
            };
            let mut hi = lo;
            if self.cursor.rest().starts_with('-') && !self.cursor.rest().starts_with("-]") {
                self.cursor.pos += 1;
                if matches!(self.cursor.peek(), None | Some('\n')) {
                    continue;
                }
                hi = self.member()?;
            }
            if hi < lo {
                let message = "the ends of this range are out of order";
                let hint = "smallest first, or escape the `-`";
                return Err(self.cursor.invalid(message, (at, self.cursor.pos), hint));
            }
            ranges.push((lo, hi));
        }
        self.cursor.pos += 1;
        let mut class = char_class::unicode(&ranges);
        if negated {
            class.negate();
        }
        Ok(char_class::ranges(&class).collect())
    }

    /// Reads one character of a class.
    fn member(&mut self) -> Result<char> {
        match self.cursor.peek() {
            Some('\\') => self.cursor.escape(),
            // The caller has seen a character.
            _ => self.cursor.bump().ok_or_else(|| self.cursor.unexpected()),
        }
    }
}
