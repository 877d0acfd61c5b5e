//! Examples as data: the files of `crates/engine/testdata`, each entry a constraint with texts that
//! match and texts that do not.
//!
//! Every entry goes through the reference of its representation, the matcher and the masks: along its
//! texts, and along a random walk. Where another validator reads the notation, it must agree: what is
//! accepted is valid, what is refused is not, and what is `left_out` is valid and not generated.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ffwd::constraint::substring::SubstringOptions;
use ffwd::constraint::tools::{ToolChoice, ToolStyle, Tools};
use ffwd::error::Place;
use ffwd::{CompiledGrammar, Constraint, Error, ErrorKind, KeyOrder, Policy, Result, Whitespace};
use ffwd_testkit::oracle::{Oracle, unique};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{Setting, accepts};
use ffwd_testkit::walk::{Check, Seen, Spelled, Walk};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The entries of one notation, by what they are about.
#[derive(Deserialize)]
struct ExampleFile {
    notation: Notation,
    #[serde(flatten)]
    groups: BTreeMap<String, Vec<ExampleEntry>>,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Notation {
    /// A pattern of JSON Schema; the texts are those inside the string.
    Ecma,
    /// A format of JSON Schema; the texts are those inside the string.
    Format,
    JsonSchema,
    Regex,
    /// An element pattern.
    Pattern,
    Ebnf,
    StructuralTag,
    /// A list of tools, called in the style of Kimi.
    Tools,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExampleEntry {
    /// The text of the constraint, or the name of a file with it.
    #[serde(default)]
    constraint: String,
    file: Option<String>,
    #[serde(default)]
    options: Options,
    /// The text that `x-verbatim` refers to.
    source: Option<String>,
    /// Documents by URI.
    #[serde(default)]
    documents: BTreeMap<String, String>,
    #[serde(default)]
    accepts: Vec<String>,
    #[serde(default)]
    refuses: Vec<String>,
    /// Texts that are valid and not generated.
    #[serde(default)]
    left_out: Vec<String>,
    /// Texts of which another validator says whether they are valid.
    #[serde(default)]
    judged: Vec<String>,
    /// The other validator does not follow the standard here.
    #[serde(default)]
    unjudged: bool,
    /// The reference is too slow for it, or it begins with itself.
    #[serde(default)]
    without_reference: bool,
    /// Another way to write the constraint.
    same_as: Option<String>,
    /// Parts of each warning, in order, with `…` between them.
    #[serde(default)]
    warnings: Vec<String>,
    error: Option<Fault>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Options {
    closed_objects: bool,
    any_order: bool,
    single_space: bool,
    equal_numbers: bool,
    /// The most white space at one place; 0: none.
    flexible: u8,
}

impl Options {
    fn policy(&self) -> Policy {
        let whitespace = match self.flexible {
            0 if self.single_space => Whitespace::SingleSpace,
            0 => Whitespace::Compact,
            max => Whitespace::Flexible { max },
        };
        let key_order = if self.any_order { KeyOrder::Any } else { KeyOrder::Declared };
        let (closed_objects, equal_numbers) = (self.closed_objects, self.equal_numbers);
        Policy { whitespace, key_order, closed_objects, equal_numbers, ..Policy::default() }
    }
}

/// What an error must say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    kind: Option<String>,
    /// The JSON pointer, or the part of the text that is at fault.
    at: Option<String>,
    message: String,
    hint: Option<String>,
}

impl Fault {
    fn compare(&self, error: &Error) -> Check {
        let found = format!("{:?}", error.kind());
        let is_there = self.at.as_ref().is_none_or(|at| places(error).contains(at));
        let hint = error.hint_text().unwrap_or_default();
        let says = error.to_string().contains(&self.message);
        let helps = self.hint.as_ref().is_none_or(|part| hint.contains(part));
        let right = self.kind.as_ref().is_none_or(|kind| *kind == found) && is_there && says && helps;
        if right { Ok(()) } else { Err(format!("another error: {found} at {:?}: {error}", places(error))) }
    }
}

/// The pointers of an error, and the parts of the text that it shows.
fn places(error: &Error) -> Vec<String> {
    let place = |place: &Place| match place {
        Place::Span { text, start, end } => text.get(*start..*end).map(str::to_owned),
        Place::Pointer(pointer) => Some(pointer.clone()),
        _ => None,
    };
    let spans = error.places().iter().filter_map(place);
    spans.chain(error.pointer().map(str::to_owned)).collect()
}

/// Says whether an output is of the language.
type Judge = Box<dyn Fn(&str) -> bool>;

impl Notation {
    /// The schema of a notation that is one.
    fn schema(self, text: &str) -> Option<String> {
        match self {
            Notation::Ecma => Some(json!({"type": "string", "pattern": text}).to_string()),
            Notation::Format => Some(json!({"type": "string", "format": text}).to_string()),
            Notation::JsonSchema => Some(text.to_owned()),
            _ => None,
        }
    }

    fn constraint(self, entry: &ExampleEntry, text: &str) -> Result<Constraint> {
        let mut builder = Constraint::builder().policy(entry.options.policy());
        for (uri, document) in &entry.documents {
            builder = builder.document(uri, document);
        }
        if let Some(source) = &entry.source {
            builder = builder.source(source, &SubstringOptions::words());
        }
        match self {
            Notation::Regex => builder.regex(text),
            Notation::Pattern => builder.pattern(text),
            Notation::Ebnf => builder.ebnf(text),
            Notation::StructuralTag => builder.structural_tag(text),
            Notation::Tools => {
                let policy = entry.options.policy();
                Tools::parse(text)?.constraint(ToolStyle::Kimi, &ToolChoice::default(), policy)
            }
            _ => builder.json_schema(self.schema(text).expect("a schema")),
        }
    }

    /// The output that a text of an example stands for.
    fn output(self, text: &str) -> String {
        match self {
            Notation::Ecma | Notation::Format => Value::from(text).to_string(),
            _ => text.to_owned(),
        }
    }

    /// What another reader of the notation says of outputs, if there is one for this constraint.
    fn judge(self, text: &str) -> Option<Judge> {
        match self {
            Notation::Regex => {
                let regex = regex::Regex::new(&format!("^(?:{text})$")).ok()?;
                Some(Box::new(move |output| regex.is_match(output)))
            }
            Notation::Format | Notation::JsonSchema => {
                let schema = serde_json::from_str(&self.schema(text)?).ok()?;
                let validator = jsonschema::options().should_validate_formats(true).build(&schema).ok()?;
                let valid = move |value: Value| validator.is_valid(&value);
                Some(Box::new(move |output| serde_json::from_str(output).is_ok_and(&valid)))
            }
            _ => None,
        }
    }
}

/// A literal of a format is checked like a text that is written. One that is valid and not generated is
/// neither right nor wrong; so may be one that is not valid.
fn as_literal(entry: &ExampleEntry, text: &str, generated: bool, valid: bool) -> Check {
    let made = Constraint::json_schema(json!({"const": text, "format": entry.constraint}).to_string());
    let kind = made.map(drop).map_err(|e| e.kind());
    let right = match kind {
        Ok(()) => generated,
        Err(ErrorKind::Unsupported) => !generated,
        Err(kind) => !generated && !valid && kind == ErrorKind::Unsatisfiable,
    };
    if right { Ok(()) } else { Err(format!("{text:?} as a literal: {kind:?}")) }
}

/// JSON texts of all kinds of values.
fn values() -> Vec<String> {
    let scalars = ["null", "true", "0", "3", "6", "2.5", "9223372036854775808", "\"\"", "\"a\"", "\"b\""];
    let mut all: Vec<String> = scalars.iter().chain(&["{}", "[]"]).map(ToString::to_string).collect();
    for a in scalars {
        all.extend([format!("[{a}]"), format!("[3,{a}]")]);
        for key in ["a", "b"] {
            all.extend([format!("{{\"{key}\":{a}}}"), format!("{{\"{key}\":{{\"a\":{a}}}}}")]);
        }
        for b in scalars {
            all.extend([format!("{{\"a\":{a},\"b\":{b}}}"), format!("{{\"a\":{{\"a\":{a}}},\"b\":{b}}}")]);
        }
    }
    all
}

/// Random members of a constraint, and texts that differ from them by a character.
fn near_misses(entry: &ExampleEntry, grammar: &CompiledGrammar, judge: &dyn Fn(&str) -> bool) -> Check {
    let mut random = Random::new(entry.constraint.len() as u64);
    for round in 0..60 {
        let mut matcher = grammar.matcher();
        // Some are long enough to meet the bounds of counted repetitions.
        for _ in 0..if round % 10 == 0 { 450 } else { random.below(12) } {
            let bytes: Vec<u32> = (0..256).filter(|&b| matcher.allows(b)).collect();
            if bytes.is_empty() {
                break;
            }
            matcher.accept_token(*random.pick(&bytes)).expect("it is legal");
        }
        let end = matcher.shortest_completion(1 << 16).ok_or("no way to the end")?;
        let member = [matcher.vocabulary().decode(&matcher.tokens()), end].concat();
        let member = String::from_utf8(member).map_err(|e| format!("{e} is no text"))?;
        let chars: Vec<char> = member.chars().collect();
        let changed = (0..chars.len().min(12)).map(|at| {
            let mut other = chars.clone();
            match random.below(3) {
                0 => drop(other.remove(at)),
                1 => other.insert(at, chars[at]),
                _ => other[at] = *random.pick(&['a', 'Z', '0', ' ', '\n', 'é', '語', '😀', '.']),
            }
            other.into_iter().collect::<String>()
        });
        for text in changed.chain([member.clone()]) {
            if accepts(grammar, &text) != judge(&text) {
                return Err(format!("{text:?}, near {member:?}, is {} elsewhere", judge(&text)));
            }
        }
    }
    Ok(())
}

/// What became of the entries.
#[derive(Default)]
struct ExampleCounts {
    entries: usize,
    texts: usize,
    judged: usize,
    seen: Seen,
}

struct ExampleRunner {
    setting: Setting,
    counts: ExampleCounts,
}

impl ExampleRunner {
    fn compile(&self, constraint: Result<Constraint>) -> Result<(CompiledGrammar, Constraint)> {
        constraint.and_then(|c| Ok((self.setting.compiler.compile(&c)?, c)))
    }

    fn entry(&mut self, notation: Notation, entry: &ExampleEntry) -> Check {
        self.counts.entries += 1;
        let made = self.compile(notation.constraint(entry, &entry.constraint));
        if let Some(fault) = &entry.error {
            return fault.compare(&made.map(drop).err().ok_or("no error")?);
        }
        let (grammar, constraint) = made.map_err(|e| format!("does not compile: {e}"))?;
        let warnings: Vec<String> =
            constraint.warnings().iter().map(|w| format!("{:?} {w}", w.kind())).collect();
        let has =
            |(parts, found): (&String, &String)| parts.split('…').all(|part| found.contains(part.trim()));
        let as_many = entry.warnings.len() == warnings.len();
        if !as_many || !entry.warnings.iter().zip(&warnings).all(has) {
            return Err(format!("other warnings: {warnings:?}"));
        }
        self.texts(notation, entry, &constraint, &grammar)?;
        let Some(other) = &entry.same_as else { return Ok(()) };
        let (other, _) = self.compile(notation.constraint(entry, other)).map_err(|e| e.to_string())?;
        if matches!(notation, Notation::Ebnf | Notation::Regex) {
            near_misses(entry, &other, &|text| accepts(&grammar, text))?;
            return near_misses(entry, &grammar, &|text| accepts(&other, text));
        }
        let mut met = BTreeSet::new();
        for text in values() {
            let [found, wanted] = [&grammar, &other].map(|g| accepts(g, &text));
            met.insert(wanted);
            if found != wanted {
                return Err(format!("{text} is {found}, but {wanted} of the other"));
            }
        }
        if met.len() == 2 { Ok(()) } else { Err("the values are all alike".into()) }
    }

    /// The texts of an entry, and a random walk.
    fn texts(
        &mut self,
        notation: Notation,
        entry: &ExampleEntry,
        constraint: &Constraint,
        grammar: &CompiledGrammar,
    ) -> Check {
        let Setting { words, compiler } = &self.setting;
        let texts = Oracle::new(constraint.ir(), constraint.policy(), words.alphabet);
        let mut walk = Walk::new(Spelled { texts, words }, words, constraint, compiler, grammar);
        let judge = notation.judge(&entry.constraint).filter(|_| entry.source.is_none() && !entry.unjudged);
        for (texts, accepted, valid) in
            [(&entry.accepts, true, true), (&entry.refuses, false, false), (&entry.left_out, false, true)]
        {
            for text in texts {
                let output = notation.output(text);
                let found = match entry.without_reference {
                    true => accepts(grammar, &output),
                    false => walk.follow(output.as_bytes()).map_err(|e| format!("{text:?}: {e}"))?,
                };
                if found != accepted {
                    return Err(format!("{text:?} is {}", if found { "accepted" } else { "refused" }));
                }
                self.counts.texts += 1;
                if notation == Notation::Format {
                    as_literal(entry, text, found, valid && !entry.unjudged)?;
                }
                if let Some(judge) = &judge {
                    self.counts.judged += 1;
                    if judge(&output) != valid {
                        return Err(format!("{text:?} is {} for another validator", !valid));
                    }
                }
            }
        }
        for text in &entry.judged {
            let valid = judge.as_ref().ok_or("there is no other validator")?(text);
            let found = walk.follow(text.as_bytes()).map_err(|e| format!("{text:?}: {e}"))?;
            self.counts.texts += 1;
            if found != valid {
                return Err(format!("{text:?} is {found}, but {valid} for another validator"));
            }
        }
        if let Some(judge) = judge.filter(|_| notation == Notation::Regex) {
            near_misses(entry, grammar, &judge)?;
        }
        if entry.without_reference {
            return Ok(());
        }
        walk.random(8, &mut Random::new(entry.constraint.len() as u64), &mut self.counts.seen)
    }
}

/// Reads a file of examples.
pub(crate) fn read<T: DeserializeOwned>(name: &str) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/engine/testdata");
    let text = std::fs::read_to_string(folder.join(name).with_extension("toml")).expect(name);
    toml::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The constraints of a group, for tests that ask more of them.
pub(crate) fn constraints(name: &str, group: &str) -> Vec<String> {
    let mut file: ExampleFile = read(name);
    let group = file.groups.remove(group).expect("a group of that name");
    group.into_iter().map(|entry| entry.constraint).collect()
}

/// Runs the entries of a file: what is wrong, by the name of the entry.
fn run(name: &str) -> (ExampleCounts, Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut runner = ExampleRunner { setting: Setting::new(1, 150, &[]), counts: ExampleCounts::default() };
    let mut wrong = Vec::new();
    let mut file: ExampleFile = read(name);
    for (group, entries) in &mut file.groups {
        for (i, entry) in entries.iter_mut().enumerate() {
            if let Some(file) = &entry.file {
                entry.constraint = std::fs::read_to_string(root.join(file)).expect(file);
            }
            let result = catch_unwind(AssertUnwindSafe(|| runner.entry(file.notation, entry)));
            let result = result.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                // What is left of an entry that the reference is too slow for, other tests see.
                if text.contains(unique::TOO_MUCH) { Ok(()) } else { Err(format!("panic: {text}")) }
            });
            if let Err(fault) = result {
                wrong.push(format!("{name}, {group} {}, {}: {fault}", i + 1, entry.constraint));
            }
        }
    }
    let ExampleCounts { entries, texts, judged, seen } = &runner.counts;
    println!("{name}: {entries} entries, {texts} texts, {judged} judged, {seen:?}");
    (runner.counts, wrong)
}

/// Each file is a test of its own; the numbers are the fewest entries and texts that it has.
macro_rules! examples {
    ($($name:ident $entries:literal $texts:literal)*) => {$(
        #[test]
        fn $name() {
            let (counts, wrong) = run(stringify!($name));
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
            assert!(counts.entries >= $entries && counts.texts + 1 > $texts, "entries are missing");
        }
    )*};
}

examples! {
    closed_objects 20 40
    ecma_patterns 120 280
    element_patterns 20 30
    formats 19 390
    grammars 60 0
    json_schema 120 400
    json_schema_dialects 70 70
    regex 35 240
    structural_tags 110 20
    tools 20 3
}

/// An entry that is wrong is named, whatever is wrong with it.
#[test]
fn wrong_entries_are_named() {
    let mut runner = ExampleRunner { setting: Setting::new(1, 50, &[]), counts: ExampleCounts::default() };
    for (wrong, part) in [
        ("constraint = 'a*'\naccepts = ['b']", "\"b\" is refused"),
        ("constraint = 'a*'\nrefuses = ['aa']", "\"aa\" is accepted"),
        ("constraint = 'a*'\nleft_out = ['b']", "another validator"),
        ("constraint = 'a*'\nwarnings = ['x']", "other warnings"),
        ("constraint = 'a*'\nerror = { message = '' }", "no error"),
        ("constraint = '('\nerror = { message = 'xyz' }", "another error"),
        ("constraint = '('", "does not compile"),
    ] {
        let entry: ExampleEntry = toml::from_str(wrong).expect(wrong);
        let fault = runner.entry(Notation::Regex, &entry).expect_err(wrong);
        assert!(fault.contains(part), "{wrong}: {fault}");
    }
}
