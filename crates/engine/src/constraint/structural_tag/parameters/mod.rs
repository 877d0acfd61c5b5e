//! Parameters of tool calls in the tag markup of several models.
//!
//! There is one tag per property, and strings are unescaped. One style has no tags: the keyword
//! arguments of a call in Python, whose strings have quotes and escapes.
//!
//! The front end of JSON Schema determines the objects that a schema allows. This module rewrites
//! them: names and values between the texts of a [`Style`], strings without quotes and escapes,
//! every other value as JSON. No value contains the text that closes it (`without_closing_tag`), so
//! that a reader finds its end.
//!
//! # Cost
//! Linear in the schema's nodes, plus a product of automata for each pattern that can produce a
//! `<`.
//!
//! # Alternatives considered
//! A second front end for schemas was rejected: the meaning of keywords does not depend on how
//! values are written.

mod without_closing_tag;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{ByteString, Extra, Gap, Ir, Markup, Node, NodeId, Object, Property, RuleId};
use crate::constraint::json::document::{Doc, Value};
use crate::constraint::policy::Whitespace;
use crate::constraint::regular::{intersect, without};
use crate::constraint::{KeyOrder, Policy, regex};
use crate::error::{Error, ErrorKind, Result};

/// The markup of call parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Style {
    /// `<parameter=NAME>`, the value on lines of its own, `</parameter>`.
    Qwen,
    /// `<parameter name="NAME">VALUE</parameter>`.
    Minimax,
    /// `<｜DSML｜parameter name="NAME" string="true">TEXT</｜DSML｜parameter>`, and `false` before
    /// JSON.
    Deepseek,
    /// The same, with a blank before `parameter`.
    DeepseekBlank,
    /// `<arg_key>NAME</arg_key><arg_value>VALUE</arg_value>`.
    Glm,
    /// `NAME=VALUE`, the value a literal of Python. JSON is one but for three words.
    Python,
}

/// The texts before a name, between it and its value, and after the value.
#[derive(Debug, Clone, Copy)]
pub(in crate::constraint) struct Tags {
    pub open: &'static str,
    pub named: &'static str,
    pub close: &'static str,
}

/// A required undeclared property must have more possible names than this. A smaller finite set of
/// names could run out and is refused.
const MIN_UNDECLARED_NAMES: usize = 10_000;

impl Style {
    /// All styles by name.
    pub(super) const NAMED: [(&str, Style); 6] = [
        ("qwen_xml", Style::Qwen),
        ("minimax_xml", Style::Minimax),
        ("deepseek_xml", Style::Deepseek),
        ("deepseek_v4_1_xml", Style::DeepseekBlank),
        ("glm_xml", Style::Glm),
        ("python", Style::Python),
    ];

    pub(super) fn tags(self) -> Tags {
        let [open, named, close] = match self {
            Style::Qwen => ["<parameter=", ">", "</parameter>"],
            Style::Minimax => ["<parameter name=\"", "\">", "</parameter>"],
            Style::Deepseek => ["<｜DSML｜parameter name=\"", "\" string=\"", "</｜DSML｜parameter>"],
            Style::DeepseekBlank => ["<｜DSML｜ parameter name=\"", "\" string=\"", "</｜DSML｜ parameter>"],
            Style::Glm => ["<arg_key>", "</arg_key>", "</arg_value>"],
            // Ends all calls: as a special token in the middle of a string it would end them, too.
            Style::Python => ["", "=", "<|tool_call_end|>"],
        };
        Tags { open, named, close }
    }

    /// Returns true if a parameter says whether its value is a string.
    pub(super) fn marks_strings(self) -> bool {
        matches!(self, Style::Deepseek | Style::DeepseekBlank)
    }

    /// Returns the names that undeclared parameters can have: those that [`is_name`](Self::is_name)
    /// allows, or some of them.
    fn names(self) -> &'static str {
        match self {
            Style::Python => r"[\p{L}_][\p{L}\p{N}_]*",
            _ => r#"[\S&&[^\p{Cc}<>"]](?:[[^\s\p{Cc}<>"] ]*[\S&&[^\p{Cc}<>"]])?"#,
        }
    }

    /// Returns true if a reader finds the end of a name, and all of the name.
    fn is_name(self, name: &str) -> bool {
        let inside = |c: char| match self {
            Style::Python => c.is_alphanumeric() || "_.-".contains(c),
            _ => !c.is_control() && !matches!(c, '<' | '>' | '"'),
        };
        !name.is_empty() && name.chars().all(inside) && name.trim() == name
    }

    fn markup(self) -> Markup {
        let Tags { open, named, .. } = self.tags();
        let [first, between, last] = match self {
            Style::Glm => [Gap::MayLine; 3],
            Style::Qwen => [Gap::None, Gap::Line, Gap::None],
            Style::Python => [Gap::None, Gap::Comma, Gap::None],
            _ => [Gap::None, Gap::Line, Gap::MayLine],
        };
        Markup { open: open.into(), named: named.into(), first, between, last }
    }
}

/// Automata that all schemas of a style share.
pub(super) struct Prepared {
    style: Style,
    /// Any text that does not close a value.
    free: Ir,
    /// The names of undeclared parameters.
    names: Ir,
}

impl Prepared {
    pub(super) fn new(style: Style) -> Result<Self> {
        Ok(Prepared { style, free: without(style.tags().close, false)?, names: regex::parse(style.names())? })
    }
}

/// Turns the root, objects in JSON, into the parameters of a call.
///
/// # Errors
/// Returns `Unsatisfiable` if the schema allows no object, `Unsupported` for names and values that
/// cannot be written in the style.
pub(super) fn write(ir: &mut Ir, prepared: &Prepared, policy: &Policy) -> Result<()> {
    let Prepared { style, free, names } = prepared;
    let (style, tags) = (*style, style.tags());
    let compares = (0..ir.len() as u32).any(|id| matches!(ir.node(NodeId(id)), Node::JsonUnique { .. }));
    let free_here = ir.append(free);
    let names_here = ir.append(names);
    let mut writer = Writer {
        policy,
        style,
        free,
        free_here,
        names,
        names_here,
        empty: ir.push(Node::Empty),
        markup: Arc::new(style.markup()),
        ir,
        clean: FxHashMap::from_iter([(free_here, free_here)]),
        made: FxHashMap::default(),
        values: FxHashMap::default(),
        objects: Vec::new(),
        any: None,
        words: style == Style::Python && !compares,
    };
    let root = writer.root()?;
    writer.finish_rules();
    match style {
        Style::Python => ir.marks.push(tags.close.to_owned()),
        _ => ir.marks.extend([tags.open, tags.named, tags.close].map(str::to_owned)),
    }
    if style == Style::Glm {
        ir.marks.push("<arg_value>".to_owned());
    }
    ir.set_root(root);
    Ok(())
}

fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// Strings: the language of their texts, and bounds on their number of characters.
#[derive(Debug, Clone, Copy)]
struct Text {
    lang: NodeId,
    least: u32,
    most: Option<u32>,
}

struct Writer<'a> {
    ir: &'a mut Ir,
    policy: &'a Policy,
    style: Style,
    markup: Arc<Markup>,
    /// Any text that does not close a value.
    free: &'a Ir,
    free_here: NodeId,
    /// The names of undeclared parameters.
    names: &'a Ir,
    names_here: NodeId,
    empty: NodeId,
    /// By language: the same language without the texts that close a value.
    clean: FxHashMap<NodeId, NodeId>,
    /// By JSON node: the same node without the texts that close a value.
    made: FxHashMap<NodeId, NodeId>,
    /// By JSON value: the node of the value in the markup.
    values: FxHashMap<NodeId, NodeId>,
    /// The objects in the markup.
    objects: Vec<NodeId>,
    /// Any JSON value without a closing text in it, and any such value that is not a string.
    any: Option<(RuleId, NodeId)>,
    /// True if `true`, `false` and `null` become the words of Python. Items that are compared with each
    /// other stay JSON.
    words: bool,
}

impl Writer<'_> {
    /// Returns the objects of the root.
    fn root(&mut self) -> Result<NodeId> {
        let mut rules = FxHashSet::default();
        let mut todo = vec![self.ir.root()];
        while let Some(id) = todo.pop() {
            match self.ir.node(id).clone() {
                Node::Union(parts) => todo.extend(parts.iter().rev()),
                Node::Rule(rule) if rules.insert(rule) => todo.extend(self.ir.rule(rule)),
                Node::JsonObject(object) => self.object(*object)?,
                Node::JsonAny => {
                    let extra = vec![Extra { keys: None, value: id }];
                    let any_order = self.policy.key_order == KeyOrder::Any;
                    self.object(Object { extra, any_order, ..Object::default() })?;
                }
                Node::Bytes(word) => self.words(&[word])?,
                Node::Literals(words) => self.words(&words)?,
                // The rule was visited already.
                Node::Rule(_) => {}
                _ if self.can_begin(id, b'{') => {
                    return Err(unsupported("objects of this kind cannot be written as parameters"));
                }
                _ => {}
            }
        }
        if self.objects.is_empty() {
            let message = "the parameters of a call are an object, and the schema allows none";
            return Err(Error::new(ErrorKind::Unsatisfiable, message));
        }
        Ok(self.ir.union(std::mem::take(&mut self.objects)))
    }

    fn object(&mut self, mut object: Object) -> Result<()> {
        for property in &mut object.properties {
            if *self.ir.node(property.value) == Node::Never {
                continue;
            }
            if !self.style.is_name(&property.name) {
                let message = format!("a parameter cannot have the name {:?}", property.name);
                return Err(unsupported(message).hint(match self.style {
                    Style::Python => "in Python, names are letters, digits and `_`; `-` and `.` are taken, too",
                    _ => {
                        "names have no `<`, `>` and `\"`, no control characters and no white space at their ends"
                    }
                }));
            }
            property.value = self.value(property.value)?;
        }
        for extra in &mut object.extra {
            extra.keys = Some(self.undeclared(extra.keys)?);
            extra.value = self.value(extra.value)?;
        }
        for demand in &mut object.demand {
            let keys = self.undeclared(demand.entry.keys)?;
            if !demand.by_name {
                self.require_many_names(keys)?;
            }
            demand.entry = Extra { keys: Some(keys), value: self.value(demand.entry.value)? };
        }
        object.markup = Some(self.markup.clone());
        let node = self.ir.push(Node::JsonObject(Box::new(object)));
        self.objects.push(node);
        Ok(())
    }

    /// Rewrites the objects among literal values.
    fn words(&mut self, words: &[ByteString]) -> Result<()> {
        for word in words.iter().filter(|word| word.first() == Some(&b'{')) {
            let text = String::from_utf8_lossy(word);
            let doc = Doc::parse(&text)?;
            let mut object = Object::default();
            for &(name, value) in doc.members(doc.root()) {
                let value = self.ir.bytes(doc.written(value));
                object.properties.push(Property { name: doc.name(name).into(), value, required: true });
            }
            self.object(object)?;
        }
        Ok(())
    }

    /// Returns the names in `keys` that a parameter can have.
    fn undeclared(&mut self, keys: Option<NodeId>) -> Result<NodeId> {
        let Some(keys) = keys else { return Ok(self.names_here) };
        let mut both = Ir::new();
        let root = intersect((self.ir, keys), (self.names, self.names.root()), &mut both)?;
        both.set_root(root);
        Ok(self.ir.append(&both))
    }

    /// Checks that required undeclared names cannot run out.
    fn require_many_names(&self, keys: NodeId) -> Result<()> {
        match CharDfa::from_node(self.ir, keys)?.finite(MIN_UNDECLARED_NAMES) {
            None => Ok(()),
            Some(few) => {
                let message =
                    format!("one of {} undeclared names is asked for by its value or its pattern", few.len());
                Err(unsupported(message).hint("declare these names in `properties`"))
            }
        }
    }

    /// Returns a value in the markup, after its name and with its closing text. The closing text is
    /// included because a rule for the text alone could end after each of its characters.
    fn value(&mut self, node: NodeId) -> Result<NodeId> {
        if self.style == Style::Python {
            return self.clean_below(node);
        }
        if let Some(&known) = self.values.get(&node) {
            return Ok(known);
        }
        let (texts, values) = self.split(node)?;
        let mut ways = Vec::new();
        let free =
            texts.iter().find(|text| text.lang == self.free_here && text.most.is_none() && text.least == 0);
        // Any text includes all JSON.
        if !values.is_empty() && (free.is_none() || self.style.marks_strings()) {
            let value = self.ir.union(values);
            let value = self.clean_below(value)?;
            let (inner, close) = (self.inner(), self.ir.bytes(self.style.tags().close));
            ways.push(self.after_name(false, vec![inner, value, inner, close]));
        }
        match free {
            Some(&free) => self.text(free, &mut ways),
            None => texts.into_iter().for_each(|text| self.text(text, &mut ways)),
        }
        let value = self.ir.union(ways);
        self.values.insert(node, value);
        Ok(value)
    }

    /// Returns the white space around JSON.
    fn inner(&mut self) -> NodeId {
        match (self.style, self.policy.whitespace) {
            (_, Whitespace::Flexible { .. }) => self.space(),
            (Style::Qwen, _) => self.ir.bytes("\n"),
            _ => self.empty,
        }
    }

    /// Returns the white space where it is flexible.
    fn space(&mut self) -> NodeId {
        let Whitespace::Flexible { max } = self.policy.whitespace else { return self.empty };
        let white = self.ir.push(Node::Class(smallvec![(9, 10), (13, 13), (32, 32)]));
        self.ir.repeat(white, 0, Some(u32::from(max.clamp(1, 64))))
    }

    /// Adds the encodings of a text.
    fn text(&mut self, text: Text, ways: &mut Vec<NodeId>) {
        let close = self.style.tags().close;
        let flexible = matches!(self.policy.whitespace, Whitespace::Flexible { .. });
        let lines = self.style == Style::Qwen;
        let before = if lines { self.ir.bytes("\n") } else { self.empty };
        let before = if flexible { self.ir.repeat(before, 0, Some(1)) } else { before };
        // The part after the text has a fixed length, so its characters can be counted with those
        // of the text.
        let mut behind = Vec::new();
        if lines {
            behind.push(format!("\n{close}"));
        }
        if !lines || flexible {
            behind.push(close.to_owned());
        }
        for behind in behind {
            let more = behind.chars().count() as u32;
            let end = self.ir.bytes(&behind);
            let mut lang = self.ir.concat(vec![text.lang, end]);
            if text.least > 0 || text.most.is_some() {
                let min_chars = text.least.saturating_add(more);
                let max_chars = text.most.map(|most| most.saturating_add(more));
                lang = self.ir.push(Node::Text { lang, min_chars, max_chars });
            }
            ways.push(self.after_name(true, vec![before, lang]));
        }
    }

    /// Prepends the text between a name and its value.
    fn after_name(&mut self, text: bool, value: Vec<NodeId>) -> NodeId {
        let mut parts = match self.style {
            Style::Qwen | Style::Minimax | Style::Python => Vec::new(),
            Style::Deepseek | Style::DeepseekBlank => {
                vec![self.ir.bytes(if text { "true\">" } else { "false\">" })]
            }
            Style::Glm => {
                let line = self.ir.bytes("\n");
                let gap = match self.policy.whitespace {
                    Whitespace::Flexible { .. } => self.space(),
                    _ => self.ir.repeat(line, 0, Some(1)),
                };
                vec![gap, self.ir.bytes("<arg_value>")]
            }
        };
        parts.extend(value);
        parts.retain(|&part| *self.ir.node(part) != Node::Empty);
        self.ir.concat(parts)
    }

    /// Separates some JSON values into the texts of their strings and the other values.
    fn split(&mut self, node: NodeId) -> Result<(Vec<Text>, Vec<NodeId>)> {
        let (mut texts, mut values) = (Vec::new(), Vec::new());
        let mut rules = FxHashSet::default();
        let mut todo = vec![node];
        while let Some(id) = todo.pop() {
            match self.ir.node(id).clone() {
                Node::Never => {}
                Node::Union(parts) => todo.extend(parts.iter().rev()),
                Node::Rule(rule) => match self.ir.rule(rule) {
                    Some(body) if self.can_begin(body, b'"') => {
                        if rules.insert(rule) {
                            todo.push(body);
                        }
                    }
                    _ => values.push(id),
                },
                Node::JsonString { lang, min_chars: least, max_chars: most } => {
                    let lang = lang.map_or(Ok(self.free_here), |lang| self.clean(lang))?;
                    texts.push(Text { lang, least, most });
                }
                Node::JsonAny => {
                    texts.push(Text { lang: self.free_here, least: 0, most: None });
                    values.push(self.any()?.1);
                }
                Node::Bytes(word) => self.split_words(&[word], &mut texts, &mut values)?,
                Node::Literals(words) => self.split_words(&words, &mut texts, &mut values)?,
                _ if self.can_begin(id, b'"') => {
                    return Err(unsupported("strings of this kind cannot be written as parameters"));
                }
                _ => values.push(id),
            }
        }
        Ok((texts, values))
    }

    fn split_words(
        &mut self,
        words: &[ByteString],
        texts: &mut Vec<Text>,
        values: &mut Vec<NodeId>,
    ) -> Result<()> {
        let (mut strings, mut others) = (Vec::new(), Vec::new());
        for word in words {
            match word.first() {
                Some(b'"') => {
                    // The front end wrote the literals.
                    let doc = Doc::parse(&String::from_utf8_lossy(word))?;
                    let Value::String(text) = doc.value(doc.root()) else { continue };
                    self.require_no_closing_tag(doc.name(text))?;
                    strings.push(ByteString::from_slice(doc.name(text).as_bytes()));
                }
                _ => others.push(word.clone()),
            }
        }
        if !strings.is_empty() {
            let lang = self.ir.literals(strings);
            texts.push(Text { lang, least: 0, most: None });
        }
        if !others.is_empty() {
            values.push(self.ir.literals(others));
        }
        Ok(())
    }

    /// Returns true if a text of a node can begin with a byte. May also return true if none can.
    fn can_begin(&self, node: NodeId, byte: u8) -> bool {
        let mut rules = FxHashSet::default();
        let mut todo = vec![node];
        while let Some(id) = todo.pop() {
            let begins = match self.ir.node(id) {
                Node::Never | Node::Empty | Node::Text { .. } => false,
                Node::Bytes(word) => word.first() == Some(&byte),
                Node::Class(ranges) => ranges.iter().any(|r| (r.0..=r.1).contains(&byte)),
                Node::Literals(words) => words.iter().any(|word| word.first() == Some(&byte)),
                // Checks all parts, because the first may be empty.
                Node::Concat(parts) => match parts.first().map(|&part| self.ir.node(part)) {
                    Some(Node::Bytes(word)) if !word.is_empty() => word.first() == Some(&byte),
                    _ => {
                        todo.extend(parts);
                        false
                    }
                },
                Node::Union(parts) => {
                    todo.extend(parts);
                    false
                }
                Node::Repeat { node, .. } => {
                    todo.push(*node);
                    false
                }
                Node::Automaton { states, .. } => {
                    todo.extend(states.first().into_iter().flat_map(|s| s.edges.iter().map(|e| e.0)));
                    false
                }
                Node::Rule(rule) => {
                    if rules.insert(*rule) {
                        todo.extend(self.ir.rule(*rule));
                    }
                    false
                }
                Node::JsonString { .. } => byte == b'"',
                Node::JsonNumber(_) => byte == b'-' || byte.is_ascii_digit(),
                Node::JsonArray { .. } | Node::JsonSet { .. } | Node::JsonUnique { .. } => byte == b'[',
                Node::JsonObject(_) => byte == b'{',
                Node::JsonAny => true,
            };
            if begins {
                return true;
            }
        }
        false
    }
}
