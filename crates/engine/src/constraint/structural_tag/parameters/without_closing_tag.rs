//! Removes the closing text of a parameter from the JSON values inside it.
//!
//! The closing text is removed from all languages of strings and names. Nodes that contain such
//! languages are rebuilt, each once. In Python, three words are spelled differently.
//!
//! # Cost
//! Linear in the nodes, plus a product of automata for each pattern that can produce a `<`.
//!
//! # Alternatives considered
//! Leaving it to readers to find the end of the JSON was rejected: they search for the closing
//! text.

use rustc_hash::FxHashSet;

use super::{Writer, unsupported};
use crate::constraint::ir::{ByteString, Extra, Ir, Node, NodeId, Object, RuleId};
use crate::constraint::json_schema;
use crate::constraint::regular::intersect;
use crate::error::Result;

impl Writer<'_> {
    /// Checks that a value does not contain the closing text.
    pub(super) fn require_no_closing_tag(&self, text: &str) -> Result<()> {
        let close = self.style.tags().close;
        match text.contains(close) {
            false => Ok(()),
            true => Err(unsupported(format!("a value contains `{close}`, which closes a parameter"))
                .hint("use the style `json`, in which every text can be written")),
        }
    }

    /// Returns a language without the texts that close a value.
    pub(super) fn clean(&mut self, lang: NodeId) -> Result<NodeId> {
        if let Some(&known) = self.clean.get(&lang) {
            return Ok(known);
        }
        let cleaned = match self.ir.node(lang) {
            _ if !self.writes(lang, b'<') => lang,
            Node::Automaton { quotes: true, .. } => {
                // Spans of a text without the closing text do not contain it either.
                for source in &self.ir.sources {
                    self.require_no_closing_tag(&source.text)?;
                }
                lang
            }
            _ => {
                let mut both = Ir::new();
                let root = intersect((self.ir, lang), (self.free, self.free.root()), &mut both)?;
                both.set_root(root);
                self.ir.append(&both)
            }
        };
        self.clean.insert(lang, cleaned);
        self.clean.insert(cleaned, cleaned);
        Ok(cleaned)
    }

    /// Returns true if a text of a regular node can contain a byte. May also return true if none
    /// can.
    fn writes(&self, node: NodeId, byte: u8) -> bool {
        let mut seen = FxHashSet::default();
        let mut todo = vec![node];
        while let Some(id) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            let found = match self.ir.node(id) {
                Node::Bytes(word) => word.contains(&byte),
                Node::Literals(words) => words.iter().any(|word| word.contains(&byte)),
                Node::Class(ranges) => ranges.iter().any(|r| (r.0..=r.1).contains(&byte)),
                node => {
                    node.parts(|part| todo.push(part));
                    false
                }
            };
            if found {
                return true;
            }
        }
        false
    }

    /// Returns any JSON value without the closing text, and any such value that is not a string.
    pub(super) fn any(&mut self) -> Result<(RuleId, NodeId)> {
        if let Some(any) = self.any {
            return Ok(any);
        }
        let rule = self.ir.declare_rule();
        let this = self.ir.push(Node::Rule(rule));
        let schema = r#"{"type": ["number", "boolean", "null"]}"#;
        let scalars = json_schema::parse(schema, self.policy)?;
        let scalars = self.ir.append(&scalars);
        let scalars = if self.words { self.clean_below(scalars)? } else { scalars };
        let array = Node::JsonArray { prefix: Vec::new(), rest: Some(this), min: 0, max: None };
        let array = self.ir.push(array);
        let extra = vec![Extra { keys: Some(self.free_here), value: this }];
        let object = self.ir.push(Node::JsonObject(Box::new(Object { extra, ..Object::default() })));
        let others = self.ir.union(vec![scalars, array, object]);
        let lang = Some(self.free_here);
        let string = self.ir.push(Node::JsonString { lang, min_chars: 0, max_chars: None });
        let body = self.ir.union(vec![string, others]);
        self.ir.define_rule(rule, body);
        self.any = Some((rule, others));
        Ok((rule, others))
    }

    /// Returns a node without the texts that close a value in the JSON below it.
    pub(super) fn clean_below(&mut self, root: NodeId) -> Result<NodeId> {
        // The parts of a node precede it.
        for id in self.below(root) {
            let made = |part| self.made.get(&part).copied().unwrap_or(part);
            let node = self.ir.node(id).moved(made, 0);
            let node = match node {
                Node::JsonAny => Node::Rule(self.any()?.0),
                Node::JsonString { lang, min_chars, max_chars } => {
                    let lang = Some(lang.map_or(Ok(self.free_here), |lang| self.clean(lang))?);
                    Node::JsonString { lang, min_chars, max_chars }
                }
                Node::JsonObject(object) if object.markup.is_none() => {
                    Node::JsonObject(Box::new(self.clean_names(*object)?))
                }
                Node::Bytes(word) => Node::Bytes(self.clean_word(&word)?),
                Node::Literals(words) => {
                    Node::Literals(words.iter().map(|word| self.clean_word(word)).collect::<Result<_>>()?)
                }
                node => node,
            };
            let clean = self.ir.push(node);
            self.made.insert(id, clean);
        }
        Ok(self.made.get(&root).copied().unwrap_or(root))
    }

    /// Returns a literal in the spelling of the style.
    fn clean_word(&self, word: &ByteString) -> Result<ByteString> {
        let text = String::from_utf8_lossy(word);
        self.require_no_closing_tag(&text)?;
        if !self.words {
            return Ok(word.clone());
        }
        // The parts outside of strings are every second one, once no quote is escaped.
        let hidden = text.replace("\\\\", "\u{1}").replace("\\\"", "\u{2}");
        let python =
            |part: &str| part.replace("true", "True").replace("false", "False").replace("null", "None");
        let parts = hidden.split('"').enumerate();
        let parts: Vec<String> =
            parts.map(|(i, part)| if i % 2 == 0 { python(part) } else { part.to_owned() }).collect();
        let shown = parts.join("\"").replace('\u{2}', "\\\"").replace('\u{1}', "\\\\");
        Ok(ByteString::from_slice(shown.as_bytes()))
    }

    /// Defines the rules of the rebuilt JSON.
    pub(super) fn finish_rules(&mut self) {
        for rule in (0..self.ir.rule_count() as u32).map(RuleId) {
            if let Some(body) = self.ir.rule(rule).and_then(|body| self.made.get(&body)) {
                self.ir.define_rule(rule, *body);
            }
        }
    }

    /// Returns a node and all nodes below it that are not languages of strings, in order.
    fn below(&self, root: NodeId) -> Vec<NodeId> {
        let (mut seen, mut todo) = (FxHashSet::default(), vec![root]);
        while let Some(id) = todo.pop() {
            if self.made.contains_key(&id) || !seen.insert(id) {
                continue;
            }
            match self.ir.node(id) {
                Node::Rule(rule) => todo.extend(self.ir.rule(*rule)),
                Node::JsonObject(object) => todo.extend(object.values()),
                // The languages of texts are clean already.
                Node::Text { .. } | Node::JsonString { .. } => {}
                node => node.parts(|part| todo.push(part)),
            }
        }
        let mut below: Vec<NodeId> = seen.into_iter().collect();
        below.sort_unstable();
        below
    }

    /// Removes names that close a value from an object in JSON.
    fn clean_names(&mut self, mut object: Object) -> Result<Object> {
        object.properties.iter().try_for_each(|property| self.require_no_closing_tag(&property.name))?;
        for extra in &mut object.extra {
            extra.keys = Some(extra.keys.map_or(Ok(self.free_here), |keys| self.clean(keys))?);
        }
        for demand in &mut object.demand {
            let keys = demand.entry.keys.map_or(Ok(self.free_here), |keys| self.clean(keys))?;
            if demand.entry.keys != Some(keys) && !demand.by_name {
                self.require_many_names(keys)?;
            }
            demand.entry.keys = Some(keys);
        }
        Ok(object)
    }
}
