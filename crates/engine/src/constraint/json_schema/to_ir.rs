//! From shapes to nodes of the IR: one node per JSON type that is left, and their union.
//!
//! Everything of bounded kinds (literals, `null`, booleans) goes into one literal set. A refusal
//! becomes an error only in this file: an unsupported keyword does no harm to a type that cannot
//! occur.

use rustc_hash::{FxBuildHasher, FxHashSet};
use smallvec::SmallVec;

use super::conjunctions::{ConjunctionId, Declared, Extras, Plan, SchemaLowering};
use super::keywords::Keyword;
use super::literal_nodes::{LiteralSet, Literals, WORDS};
use super::multiple_of::multiples;
use super::properties::undeclared;
use super::shape::{Bound, Shape, StringPart, Term, Terms, Test, lower_max};
use super::types::Types;
use super::undeclared::{Keys, nothing};
use crate::char_lang::byte_nfa::ByteNfa;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ecma::{self, Pattern};
use crate::constraint::format;
use crate::constraint::ir::{ByteString, Extra, Ir, Node, NodeId, Object, Parts, Property};
use crate::constraint::json::document::Id;
use crate::constraint::number::NumberSpec;
use crate::constraint::policy::Policy;
use crate::constraint::regular;
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of integers between bounds that are tried one by one for a `multipleOf`.
const MAX_MULTIPLES: u64 = 2_000;

/// Up to this number, names are compared one by one.
const MAX_SCANNED_PROPERTIES: usize = 16;

/// A class of characters, with the minimum and maximum number of its repetitions.
type Repeated = (Vec<(char, char)>, u32, Option<u32>);

impl SchemaLowering<'_> {
    /// Finds the conjunctions of a shape's children.
    pub fn plan(&mut self, mut shape: Box<Shape>) -> Result<Plan> {
        let (mut properties, mut extra, mut prefix) = (Declared::new(), Extras::new(), Vec::new());
        let (mut rest, mut contains, mut demand) = (self.conjunction(&[])?, Vec::new(), None);
        if shape.literals.is_none() && shape.types.meets(Types::ARRAY) {
            self.normalizer.drop_trivial_conditions(&mut shape.array)?;
            shape.drop_contradictions();
            for terms in &shape.array.prefix {
                prefix.push(self.conjunction(terms)?);
            }
            rest = self.conjunction(&shape.array.rest)?;
            contains = self.contains_ways(&shape.array)?;
        }
        if shape.literals.is_none() && shape.types.meets(Types::OBJECT) {
            properties = self.properties(&mut shape)?;
            extra = self.undeclared_properties(&shape)?;
            self.drop_met_demands(&mut shape, extra.is_empty())?;
            if self.declare_few(&mut shape, &extra)? {
                properties.extend(self.properties(&mut shape)?);
                extra = self.undeclared_properties(&shape)?;
            }
            demand = self.plan_demands(&shape, &properties, &extra)?;
        }
        Ok(Plan { shape, properties, extra, prefix, rest, contains, demand })
    }

    /// Returns the declared properties in the order of the output.
    fn properties(&mut self, shape: &mut Shape) -> Result<Declared> {
        if shape.object.order.is_empty() && shape.object.late.is_empty() {
            return Ok(Declared::new());
        }
        let mut names = std::mem::take(&mut shape.object.order);
        names.append(&mut shape.object.late);
        let mut properties = Declared::with_capacity(names.len());
        let few = names.len() <= MAX_SCANNED_PROPERTIES;
        let mut seen = FxHashSet::with_capacity_and_hasher(if few { 0 } else { names.len() }, FxBuildHasher);
        for name in names {
            let met = if few { properties.iter().any(|p| p.0 == name) } else { !seen.insert(name) };
            if met {
                continue;
            }
            let mut terms = match shape.object.values.get(&name) {
                // Cheaper than a clone.
                Some(terms) => Terms::from_slice(terms),
                None => undeclared(&mut self.normalizer.context, shape, name)?,
            };
            for i in 0..shape.object.names.len() {
                let Term::Pos(schema) = shape.object.names[i] else { continue };
                if !self.normalizer.validator().name_valid(schema, name)? {
                    terms = nothing();
                }
            }
            if !shape.object.values.contains_key(&name) {
                shape.object.values.change().insert(name, Terms::new());
            }
            properties.push((name, self.conjunction(&terms)?, shape.object.required.contains(name)));
        }
        Ok(properties)
    }

    /// Builds the node of a conjunction from its planned shapes and the conjunctions that are
    /// alternatives to them.
    pub fn build(&mut self, plans: &[Plan], elsewhere: &[ConjunctionId]) -> Result<NodeId> {
        let mut parts = Parts::new();
        let mut literals = Literals::default();
        for plan in plans {
            let shape = &plan.shape;
            if shape.is_free() {
                return Ok(self.nodes.any);
            }
            if let Some(values) = shape.literals.clone() {
                for &literal in values.iter() {
                    self.nodes.literal(&self.normalizer.context, literal, &mut literals, &mut parts);
                }
                continue;
            }
            if let Some(refusal) = shape.refusals.iter().find(|r| r.types.meets(shape.types)) {
                return Err(self
                    .normalizer
                    .context
                    .error(ErrorKind::Unsupported, refusal.at, refusal.message.clone())
                    .hint(refusal.hint));
            }
            for (types, word) in WORDS {
                if shape.types.meets(types) {
                    literals.words.push(ByteString::from_slice(word.as_bytes()));
                }
            }
            if shape.types.meets(Types::NUMBER) {
                self.number(shape, &mut literals.words, &mut parts)?;
            }
            if shape.types.meets(Types::STRING) {
                parts.push(self.string(shape)?);
            }
            if shape.types.meets(Types::ARRAY) {
                parts.push(self.array(plan)?);
            }
            if shape.types.meets(Types::OBJECT) {
                self.object(plan, &mut parts)?;
            }
        }
        for &goal in elsewhere {
            let node = self.node(goal);
            if node == self.nodes.any {
                return Ok(node);
            }
            match self.nodes.ir.node(node) {
                Node::Union(others) => parts.extend_from_slice(others),
                Node::Never => self.culprit = self.culprit.take().or_else(|| self.conjunctions.reason(goal)),
                _ => parts.push(node),
            }
        }
        parts.retain(|&mut p| !matches!(self.nodes.ir.node(p), Node::Never));
        if parts.len() > 1 {
            let mut seen = FxHashSet::default();
            parts.retain(|&mut p| seen.insert(p));
        }
        if !literals.is_empty() {
            self.nodes.literals(literals, &mut parts);
        }
        Ok(match parts.len() {
            0 => self.nodes.never,
            _ => self.nodes.ir.union(parts),
        })
    }

    fn number(&mut self, shape: &Shape, words: &mut LiteralSet, parts: &mut Parts) -> Result<()> {
        let at = self.representative_schema(shape);
        let integer = !shape.types.meets(Types::FRACTION);
        if let Some(&(_, at, _)) = shape.number.divisors.first()
            && self.listed_multiples(shape, integer, at, words)?
        {
            return Ok(());
        }
        let key = |b: &Option<Bound>| b.as_ref().map(|b| (b.text, b.exclusive));
        let scale = if integer { None } else { shape.number.scale };
        let exponent = self.max_exponent(shape, integer);
        let key = (integer, key(&shape.number.min), key(&shape.number.max), scale, exponent);
        let whole = shape.types.meets(Types::INT);
        // Zeros after the last digit that counts do not change the value.
        let finer = match scale {
            Some(scale) if self.normalizer.context.policy.equal_numbers => {
                multiples(&Decimal::new(format!("1e-{scale}")))?
            }
            _ => None,
        };
        let spec = NumberSpec {
            integer,
            zeros: integer && self.normalizer.context.equal_integers(),
            minimum: self.decimal(&shape.number.min, at)?,
            maximum: self.decimal(&shape.number.max, at)?,
            scale: scale.filter(|_| finer.is_none()),
            max_exponent: exponent,
        };
        let node = match shape.number.divisors.is_empty() && whole && finer.is_none() {
            true => self.nodes.number_node(&self.normalizer.context, key, &spec, at)?,
            false => self.computed_numbers(shape, &spec, (whole, finer))?,
        };
        parts.push(node);
        Ok(())
    }

    /// Returns the greatest exponent with which numbers stay below the power of ten that a format
    /// sets; `None` if there are no exponents or no format.
    fn max_exponent(&self, shape: &Shape, integer: bool) -> Option<u32> {
        let policy = self.normalizer.context.policy;
        let part = &shape.number;
        let bounded = part.min.is_some() || part.max.is_some() || part.scale.is_some();
        let magnitude = part.magnitude.filter(|_| policy.exponent && !integer && !bounded)?;
        Some(magnitude.saturating_sub(u32::from(policy.max_integer_digits.max(1))))
    }

    fn decimal(&self, bound: &Option<Bound>, at: Id) -> Result<Option<(Decimal, bool)>> {
        let Some(bound) = bound else { return Ok(None) };
        let decimal = Decimal::parse(self.normalizer.context.doc.name(bound.text))
            .map_err(|e| e.at(self.normalizer.context.doc.place(at)))?;
        Ok(Some((decimal, bound.exclusive)))
    }

    /// Builds the numbers of a specification, restricted by the divisors: each must divide them or
    /// must not. If `among` is given, they are also in it; without `whole`, they are not integers.
    /// They are written without exponents, in any policy.
    fn computed_numbers(
        &mut self,
        shape: &Shape,
        spec: &NumberSpec,
        (whole, among): (bool, Option<CharDfa>),
    ) -> Result<NodeId> {
        let at = shape.number.divisors.first().map_or(self.representative_schema(shape), |d| d.1);
        let policy = Policy { exponent: false, ..self.normalizer.context.policy.clone() };
        let mut scratch = Ir::new();
        let numbers = match crate::constraint::number::number(spec, &policy, &mut scratch) {
            Ok(node) => node,
            Err(e) if e.kind() == ErrorKind::Unsatisfiable => return Ok(self.nodes.never),
            Err(e) => return Err(e.at(self.normalizer.context.doc.place(self.representative_schema(shape)))),
        };
        let located = |goals: &Self, e: Error, at| e.at(goals.normalizer.context.doc.place(at));
        let mut all = CharDfa::from_nfa(&ByteNfa::new(&scratch, numbers)?)?;
        for &(text, at, divides) in &shape.number.divisors {
            let divisor = Decimal::new(self.normalizer.context.doc.name(text));
            let Some(multiples) = multiples(&divisor)? else {
                return Err(self.normalizer.context.unsupported(Keyword::MultipleOf, at));
            };
            let wanted = if divides { all.intersect(&multiples) } else { all.without(&multiples) };
            all = wanted.map_err(|e| located(self, e, at))?;
        }
        if let Some(others) = among {
            all = all.intersect(&others).map_err(|e| located(self, e, at))?;
        }
        if !whole && let Some(integers) = multiples(&Decimal::new("1"))? {
            all = all.without(&integers).map_err(|e| located(self, e, at))?;
        }
        regular::to_ir::lower(&all, &mut self.nodes.ir).map_err(|e| located(self, e, at))
    }

    /// Adds the integers between bounds that the divisors divide, one by one; `false` if there are
    /// too many.
    fn listed_multiples(
        &mut self,
        shape: &Shape,
        integer: bool,
        at: Id,
        words: &mut LiteralSet,
    ) -> Result<bool> {
        if self.normalizer.context.policy.equal_numbers {
            return Ok(false);
        }
        let part = &shape.number;
        let bound = |b: &Option<Bound>| -> Option<i64> {
            let text = self.normalizer.context.doc.name(b.as_ref()?.text);
            text.parse::<i64>().ok().filter(|n| n.unsigned_abs() < 1 << 50)
        };
        let (Some(min), Some(max), true) = (bound(&part.min), bound(&part.max), integer) else {
            return Ok(false);
        };
        let divisors: Vec<(Decimal, bool)> = part
            .divisors
            .iter()
            .map(|d| (Decimal::new(self.normalizer.context.doc.name(d.0)), d.2))
            .collect();
        if (max - min).unsigned_abs() > MAX_MULTIPLES {
            return Ok(false);
        }
        self.normalizer.context.step((max - min).unsigned_abs() / 4, at)?;
        let mut found = Vec::new();
        for n in min..=max {
            let excluded = |b: &Option<Bound>, end| b.as_ref().is_some_and(|b| b.exclusive) && n == end;
            if excluded(&part.min, min) || excluded(&part.max, max) {
                continue;
            }
            let number = Decimal::new(n.to_string());
            let mut divides = true;
            for (divisor, wanted) in &divisors {
                match number.is_multiple_of(divisor) {
                    Some(holds) => divides &= holds == *wanted,
                    None => return Ok(false),
                }
            }
            if divides {
                found.push(ByteString::from_slice(n.to_string().as_bytes()));
            }
        }
        words.extend(found);
        Ok(true)
    }

    fn string(&mut self, shape: &Shape) -> Result<NodeId> {
        let part = &shape.string;
        let key = (part.tests.iter().map(|t| (t.0, t.1)).collect(), part.min, part.max);
        if let Some(&node) = self.strings.get(&key) {
            return Ok(node);
        }
        let node = self.string_language(part)?;
        if self.nodes.is_never(node) {
            let at = part.tests.first().map_or(self.representative_schema(shape), |t| t.2);
            self.culprit.get_or_insert_with(|| (at, "no text satisfies all of the string keywords".into()));
        }
        self.strings.insert(key, node);
        Ok(node)
    }

    fn string_language(&mut self, part: &StringPart) -> Result<NodeId> {
        let plain = |lang, min_chars, max_chars| Node::JsonString { lang, min_chars, max_chars };
        if part.tests.iter().any(|t| t.0 == Test::Verbatim) {
            return self.quoted_string(part);
        }
        let mut only = None;
        if let Some((ranges, min, max)) = self.classes(part, &mut only) {
            if max.is_some_and(|m| m < min) {
                return Ok(self.nodes.never);
            }
            let lang = ecma::class_star(&ranges, &mut self.nodes.ir);
            return Ok(self.nodes.ir.push(plain(Some(lang), min, max)));
        }
        let lang = match part.tests[..] {
            [] => None,
            [(Test::Pattern(name), true, at)] => Some(match only {
                // The pattern was parsed for the class check.
                Some(pattern) => self.nodes.read_pattern(&self.normalizer.context, &pattern, name, at)?,
                None => self.nodes.pattern_node(&self.normalizer.context, name, at)?,
            }),
            [(Test::Format(name), true, _)] => {
                format::language(self.normalizer.context.doc.name(name), &mut self.nodes.ir)
            }
            _ => match self.normalizer.context.texts.language(&self.normalizer.context.doc, part)? {
                None => None,
                Some(dfa) if dfa.is_empty() => return Ok(self.nodes.never),
                Some(dfa) if dfa.is_everything() => None,
                Some(dfa) => {
                    let at = part.tests[0].2;
                    let lowered = regular::to_ir::lower(&dfa, &mut self.nodes.ir);
                    Some(lowered.map_err(|e| e.at(self.normalizer.context.doc.place(at)))?)
                }
            },
        };
        if lang.is_some_and(|l| self.nodes.is_never(l)) {
            return Ok(self.nodes.never);
        }
        Ok(self.nodes.ir.push(plain(lang, part.min, part.max)))
    }

    /// If all tests are patterns of one repeated class: returns the common class and length bounds.
    /// Otherwise leaves the first other pattern in `other`.
    fn classes(&self, part: &StringPart, other: &mut Option<Pattern>) -> Option<Repeated> {
        let (mut min, mut max) = (part.min, part.max);
        let mut common: Option<Vec<(char, char)>> = None;
        for &(test, holds, _) in &part.tests {
            let Test::Pattern(pattern) = test else { return None };
            let pattern = Pattern::parse(self.normalizer.context.doc.name(pattern)).ok().filter(|_| holds)?;
            let Some((ranges, least, most)) = pattern.single_class() else {
                *other = Some(pattern);
                return None;
            };
            min = min.max(least);
            if let Some(most) = most {
                lower_max(&mut max, most);
            }
            common = Some(match common {
                None => ranges,
                Some(old) => old
                    .iter()
                    .flat_map(|a| ranges.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))))
                    .filter(|r| r.0 <= r.1)
                    .collect(),
            });
        }
        // An empty class is left to the general case.
        common.filter(|c| !c.is_empty()).map(|c| (c, min, max))
    }

    fn array(&mut self, plan: &Plan) -> Result<NodeId> {
        let part = &plan.shape.array;
        let mut max = part.max;
        let mut prefix: Vec<NodeId> = plan.prefix.iter().map(|&g| self.node(g)).collect();
        let rest = Some(self.node(plan.rest)).filter(|&r| !self.nodes.is_never(r));
        let stop = prefix.iter().position(|&p| self.nodes.is_never(p));
        if let Some(stop) = stop {
            lower_max(&mut max, stop as u32);
        } else if rest.is_none() {
            lower_max(&mut max, prefix.len() as u32);
        }
        if let Some(most) = max {
            prefix.truncate(most as usize);
            if part.min > most {
                let culprit = stop.map_or(plan.rest, |s| plan.prefix[s]);
                self.culprit = self.culprit.take().or(self.conjunctions.reason(culprit));
                return Ok(self.nodes.never);
            }
        }
        if let Some(at) = part.unique
            && max.is_none_or(|m| m > 1)
        {
            if !part.contains.is_empty() {
                return self.unique_containing(plan, rest, at);
            }
            if let (true, Some(items)) = (prefix.is_empty(), rest)
                && let Some(node) = self.nodes.unique_texts(items, (part.min, max))?
            {
                return Ok(node);
            }
            let rest = rest.filter(|_| max.is_none_or(|m| m as usize > prefix.len()));
            let array = self.nodes.ir.push(Node::JsonArray { prefix, rest, min: part.min, max });
            return Ok(self.nodes.ir.push(Node::JsonUnique { array, enough: Vec::new() }));
        }
        if !part.contains.is_empty() {
            return self.containing(plan);
        }
        let rest = rest.filter(|_| max.is_none_or(|m| m as usize > prefix.len()));
        Ok(self.nodes.ir.push(Node::JsonArray { prefix, rest, min: part.min, max }))
    }

    fn object(&mut self, plan: &Plan, parts: &mut Parts) -> Result<()> {
        let mut properties = Vec::with_capacity(plan.properties.len());
        for &(name, goal, required) in &plan.properties {
            let value = self.node(goal);
            if self.nodes.is_never(value) && required {
                let why = format!(
                    "the required property {:?} allows no value",
                    self.normalizer.context.doc.name(name)
                );
                let reason = self.conjunctions.reason(goal);
                let own = self.representative_schema(&plan.shape);
                self.culprit.get_or_insert_with(|| match reason {
                    Some((at, reason)) => (at, format!("{why}: {reason}").into()),
                    None => (own, why.into()),
                });
                return Ok(());
            }
            properties.push(Property {
                name: self.normalizer.context.doc.name(name).into(),
                value,
                required,
            });
        }
        let mut extra = SmallVec::<[(Keys, NodeId); 1]>::new();
        for (keys, goal) in &plan.extra {
            let value = self.node(*goal);
            if !self.nodes.is_never(value) {
                extra.push((keys.clone(), value));
            }
        }
        if extra.is_empty() && plan.demand.is_none() {
            properties.retain(|p| !matches!(self.nodes.ir.node(p.value), Node::Never));
        }
        match &plan.demand {
            Some(demand) => self.demanding(plan, demand, &properties, &extra, parts),
            None => self.counted(plan, properties, &extra, parts),
        }
    }

    /// Adds the object with the allowed number of properties.
    pub fn counted(
        &mut self,
        plan: &Plan,
        mut properties: Vec<Property>,
        extra: &[(Keys, NodeId)],
        parts: &mut Parts,
    ) -> Result<()> {
        let (min, max) = (plan.shape.object.min, plan.shape.object.max);
        let required = properties.iter().filter(|p| p.required).count();
        let possible = properties.iter().filter(|p| !self.nodes.is_never(p.value)).count();
        let culprit = match max {
            _ if extra.is_empty() && possible < min as usize => {
                "there are fewer possible properties than `minProperties` asks for"
            }
            Some(max) if required > max as usize => {
                "there are more required properties than `maxProperties` allows"
            }
            _ => {
                let mut entries = Vec::new();
                // If required properties use up the maximum, no others are possible.
                if max.is_none_or(|max| required < max as usize) {
                    for (keys, value) in extra {
                        entries.push(Extra {
                            keys: self.nodes.keys_node(&self.normalizer.context, keys)?,
                            value: *value,
                        });
                    }
                } else {
                    properties.retain(|p| p.required);
                }
                let object =
                    Object { properties, extra: entries, demand: Vec::new(), min, max, ..Object::default() };
                parts.push(self.nodes.ir.push(Node::JsonObject(Box::new(object))));
                return Ok(());
            }
        };
        let at = plan.shape.object.count_at.unwrap_or(self.representative_schema(&plan.shape));
        self.culprit.get_or_insert((at, culprit.into()));
        Ok(())
    }
}
