//! Parser of a subset of the grammar notation of Lark.
//!
//! ```text
//! start: greeting ("," NAME)* "!"       // rules in lower case
//! ?greeting: "hello"i -> english | /sal(ve|ut)/ -> other
//! NAME: "A".."Z" LETTER~1..9            // TERMINALS in upper case
//! list{item}: item ("," item)*          // a template: list{NAME}
//! %import common (LETTER, WS)
//! %ignore WS                            # a comment, too
//! ```
//!
//! | written | meaning |
//! |---|---|
//! | `"text"`, `"text"i` | this text, in any case with `i` |
//! | `/regex/` with flags `i l m s u x` | a regular expression; look-around and anchors see the text of its terminal only |
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
//! - Each use of a template with other arguments becomes a rule. An argument is a name, a text, a
//!   pattern or a use of a template.
//! - `%declare`, `%extend` and `%override` are refused.
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
//! Parsing is linear in the text, with the bodies of templates once for each rule that they become.
//!
//! # Alternatives considered
//! Imports of files were rejected: a constraint is one text.

use rustc_hash::FxHashMap;

use super::cursor::{Cursor, Span, fault};
use super::expr_builder::ExprBuilder;
use super::rules::{Counts, Expr, ExprId, Grammar};
use super::{MAX_TEXT, check_length, compile, regex};
use crate::char_lang::pattern_text::MAX_NESTING;
use crate::constraint::ir::{Ir, Quoting};
use crate::constraint::{Policy, json_schema};
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// Words after `%` that begin a line of their own.
const DIRECTIVES: [&str; 6] = ["ignore", "import", "declare", "extend", "override", "llguidance"];

/// The terminals that can be imported from `common`, as regular expressions.
const COMMON_TERMINALS: [(&str, &str); 24] = [
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
    ("SH_COMMENT", r"#[^\n]*"),
    ("CPP_COMMENT", r"//[^\n]*"),
    ("SQL_COMMENT", r"--[^\n]*"),
    ("C_COMMENT", r"/\*([^*]|\*+[^*/])*\*+/"),
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
    let mut parser = LarkParser {
        cursor,
        grammar,
        policy,
        source,
        in_rule: false,
        priorities: 0,
        templates: FxHashMap::default(),
        uses: Vec::new(),
        arguments: Vec::new(),
        nesting: 0,
    };
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
    parser.expand_templates()?;
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
    /// Templates by name: their parameters and the position of the body.
    templates: FxHashMap<&'a str, (Vec<&'a str>, usize)>,
    /// Uses of templates without a rule yet.
    uses: Vec<TemplateUse<'a>>,
    /// The parameters of the template that is read, each with the name of the rule that it is.
    arguments: Vec<(&'a str, String)>,
    /// Number of templates whose arguments are being read.
    nesting: u32,
}

/// A use of a template, which becomes a rule.
struct TemplateUse<'a> {
    template: &'a str,
    arguments: Vec<String>,
    rule: String,
    span: Span,
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_').starts_with(|c: char| c.is_ascii_uppercase())
}

impl<'a> LarkParser<'a> {
    fn blanks(&mut self) {
        self.cursor.skip_blanks(&["//", "#"]);
    }

    fn span(&self, start: usize) -> Span {
        (start, self.cursor.pos)
    }

    fn unsupported(&self, message: &str, start: usize, hint: &str) -> Error {
        self.grammar.fault(ErrorKind::Unsupported, message, self.span(start), hint)
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
        if self.cursor.peek() == Some('{') {
            return self.template(name, start);
        }
        self.colon()?;
        if !name.trim_start_matches('_').starts_with(|c: char| c.is_ascii_alphabetic()) {
            let hint = "such as `rule_1`";
            return Err(self.cursor.invalid("a name must have a letter before its digits", span, hint));
        }
        self.in_rule = !is_terminal(name);
        let body = self.alternatives(start)?;
        self.grammar.define(name, body, span)
    }

    /// Reads a list in braces.
    fn braced(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.cursor.pos += 1;
        loop {
            self.blanks();
            item(self)?;
            self.blanks();
            if self.cursor.eat("}") {
                return Ok(());
            }
            if !self.cursor.eat(",") {
                return Err(self.cursor.unexpected().hint("the list is separated by commas"));
            }
        }
    }

    /// Reads the parameters of a template, keeps it and skips its body.
    fn template(&mut self, name: &'a str, start: usize) -> Result<()> {
        let span = self.span(start);
        let mut parameters = Vec::new();
        self.braced(|parser| {
            let name = parser.cursor.take_while(in_name);
            if name.is_empty() || parameters.contains(&name) {
                let hint = "parameters are different names: `list{item, sep}: ...`";
                return Err(parser.cursor.unexpected().hint(hint));
            }
            parameters.push(name);
            Ok(())
        })?;
        self.colon()?;
        if self.templates.insert(name, (parameters, self.cursor.pos)).is_some() {
            let message = format!("`{name}` is defined twice");
            return Err(self.cursor.invalid(message, span, "join the two definitions with `|`"));
        }
        self.blanks();
        while self.cursor.peek().is_some() && !self.at_definition() {
            self.cursor.take_while(|c| c != '\n');
            self.blanks();
        }
        Ok(())
    }

    fn colon(&mut self) -> Result<()> {
        self.blanks();
        match self.cursor.eat(":") {
            true => Ok(()),
            false => Err(self.cursor.unexpected().hint("a rule is written `name: ...`")),
        }
    }

    /// Makes a rule of each use of a template. Their bodies may use templates.
    ///
    /// # Errors
    /// `InvalidPattern` for unknown templates and wrong numbers of arguments, `TooComplex` if all
    /// rules together are longer than a grammar may be.
    fn expand_templates(&mut self) -> Result<()> {
        let mut length = 0;
        while let Some(used) = self.uses.pop() {
            let Some((parameters, body)) = self.templates.get(used.template).cloned() else {
                let message = format!("there is no template `{}`", used.template);
                let hint = format!("define it: `{}{{item}}: ...`", used.template);
                return Err(self.cursor.invalid(message, used.span, hint));
            };
            if parameters.len() != used.arguments.len() {
                let message = format!("`{}` has {} parameters", used.template, parameters.len());
                return Err(self.cursor.invalid(message, used.span, "write one argument for each of them"));
            }
            self.arguments = parameters.into_iter().zip(used.arguments).collect();
            self.cursor.pos = body;
            self.in_rule = true;
            let expr = self.alternatives(body)?;
            length += self.cursor.pos - body + used.rule.len();
            if length > MAX_TEXT {
                let hint = "a template that uses itself must do so with the same arguments";
                let message = "the rules that templates become are too long";
                return Err(self.grammar.fault(ErrorKind::TooComplex, message, used.span, hint));
            }
            self.define_implied(&used.rule, expr, used.span)?;
        }
        Ok(())
    }

    fn define_implied(&mut self, name: &str, body: ExprId, span: Span) -> Result<()> {
        self.grammar.define(name, body, span)?;
        let rule = self.grammar.rule(name, span);
        self.grammar.rules[rule as usize].implied = true;
        Ok(())
    }

    /// Reads the arguments of a template, from the opening brace on, and returns the name of the
    /// rule that this use becomes.
    fn used_template(&mut self, template: &'a str, start: usize) -> Result<String> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            let (message, hint) = ("too many templates in each other", "make rules of the inner ones");
            return Err(self.grammar.fault(ErrorKind::TooComplex, message, self.span(start), hint));
        }
        let mut arguments = Vec::new();
        self.braced(|parser| {
            arguments.push(parser.argument()?);
            Ok(())
        })?;
        self.nesting -= 1;
        let (span, rule) = (self.span(start), format!("{template}{{{}}}", arguments.join(",")));
        if !self.grammar.names.contains_key(&rule) {
            self.grammar.rule(&rule, span);
            self.uses.push(TemplateUse { template, arguments, rule: rule.clone(), span });
        }
        Ok(rule)
    }

    /// Reads an argument and returns the name of its rule. That of a text or pattern is how it is
    /// written.
    fn argument(&mut self) -> Result<String> {
        let start = self.cursor.pos;
        let expr = match self.cursor.peek() {
            Some('"') => self.string()?,
            Some('/') => self.regex()?,
            Some(c) if in_name(c) => return self.name(),
            _ => {
                let hint = "an argument is a name, a text or a pattern; make a rule of anything else";
                return Err(self.cursor.unexpected().hint(hint));
            }
        };
        let written = &self.cursor.text[start..self.cursor.pos];
        if !self.grammar.names.contains_key(written) {
            self.define_implied(written, expr, self.span(start))?;
        }
        Ok(written.to_owned())
    }

    /// Reads a name and returns that of the rule it stands for: a parameter stands for its argument.
    fn name(&mut self) -> Result<String> {
        let start = self.cursor.pos;
        let name = self.cursor.take_while(in_name);
        if self.cursor.peek() == Some('{') {
            return self.used_template(name, start);
        }
        let argument = self.arguments.iter().find(|(parameter, _)| *parameter == name);
        Ok(argument.map_or_else(|| name.to_owned(), |(_, rule)| rule.clone()))
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
        let name = self.name()?;
        let terminal = is_terminal(&name);
        if !self.in_rule && !terminal {
            let message = format!("a terminal refers to the rule `{name}`");
            let hint = "terminals (in upper case) may refer to terminals only";
            return Err(self.cursor.invalid(message, self.span(start), hint));
        }
        let rule = self.grammar.rule(&name, (start, self.cursor.pos));
        let expr = self.grammar.push(Expr::Rule(rule));
        Ok(if terminal { self.token(expr) } else { expr })
    }

    fn string(&mut self) -> Result<ExprId> {
        let start = self.cursor.pos;
        let text = self.cursor.string()?;
        let expr = if self.cursor.rest().starts_with("..") {
            self.range(&text, start)?
        } else if self.flags(start, "i")?.contains('i') {
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

    /// Reads the flags after a string or pattern.
    fn flags(&mut self, start: usize, known: &str) -> Result<&'a str> {
        let flags = self.cursor.take_while(|c| c.is_ascii_alphabetic());
        if let Some(unknown) = flags.chars().find(|&c| !known.contains(c)) {
            let message = format!("the flag `{unknown}` is not supported here");
            return Err(self.unsupported(&message, start, &format!("the flags are: {known}")));
        }
        Ok(flags)
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
                Some(c) => pattern.push(c),
                None => return Err(self.unclosed_pattern(start)),
            }
        }
        // Only a pattern that ignores blanks has several lines.
        let is_flag = |c: &char| c.is_ascii_alphabetic();
        if pattern.contains('\n') && !self.cursor.rest().chars().take_while(is_flag).any(|c| c == 'x') {
            return Err(self.unclosed_pattern(start));
        }
        let flags = self.flags(start, "ilmsux")?;
        let expr = regex::expression(&pattern, flags, self.span(start), &mut self.grammar)?;
        Ok(self.token(expr))
    }

    fn unclosed_pattern(&self, start: usize) -> Error {
        let hint = "close it with `/`; comments begin with `//`";
        self.cursor.invalid("unclosed pattern", (start, start + 1), hint)
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
        let body = regex::expression(pattern, "", span, &mut self.grammar)?;
        self.define_implied(alias, body, span)
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
