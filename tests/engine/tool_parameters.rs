//! Parameters of tool calls in tags, against a reader without automata.
//!
//! The reader takes a text apart and reads each value as a string or as JSON. It then asks the
//! grammar of the same schema in JSON and the `jsonschema` crate. `FFWD_ORACLE_CASES` sets the
//! number of texts for each schema, style and policy, `FFWD_ORACLE_SEED` selects another series.

use ffwd::{CompiledGrammar, Compiler, Constraint, ErrorKind, KeyOrder, Policy, Whitespace};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;
use serde::Deserialize;
use serde_json::{Value, json};

use super::examples::read as read_data;

/// Most white space where it is flexible.
const SPACES: usize = 2;

/// One of the styles, as the reader knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Style {
    Qwen,
    Minimax,
    Deepseek,
    Glm,
}
use Style::{Deepseek, Glm, Minimax, Qwen};

impl Style {
    const ALL: [Style; 4] = [Qwen, Minimax, Deepseek, Glm];

    fn name(self) -> &'static str {
        match self {
            Qwen => "qwen_xml",
            Minimax => "minimax_xml",
            Deepseek => "deepseek_xml",
            Glm => "glm_xml",
        }
    }

    /// The texts before a name, after it, and after a value.
    fn tags(self) -> [&'static str; 3] {
        match self {
            Qwen => ["<parameter=", ">", "</parameter>"],
            Minimax => ["<parameter name=\"", "\">", "</parameter>"],
            Deepseek => ["<｜DSML｜parameter name=\"", "\" string=\"", "</｜DSML｜parameter>"],
            Glm => ["<arg_key>", "</arg_key>", "</arg_value>"],
        }
    }
}

/// A parameter as it is written: `string` is what the style says about its value, if it says so.
#[derive(Debug, Clone)]
struct Written {
    name: String,
    value: String,
    string: Option<bool>,
}

/// A text of parameters in the usual spelling.
fn spelled(style: Style, list: &[Written]) -> String {
    let [open, named, close] = style.tags();
    let one = |p: &Written| {
        let value = match (style, p.string) {
            (Qwen, _) => format!("\n{}\n", p.value),
            (Minimax, _) => p.value.clone(),
            (Deepseek, string) => format!("{}\">{}", string.unwrap_or(true), p.value),
            (Glm, _) => format!("\n<arg_value>{}", p.value),
        };
        format!("{open}{}{named}{value}{close}", p.name)
    };
    list.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// What is left behind at most so much white space, in all ways.
fn spaced(text: &str, most: usize) -> Vec<&str> {
    let white = text.bytes().take(most).take_while(|b| b" \t\r\n".contains(b)).count();
    (0..=white).map(|n| &text[n..]).collect()
}

/// What is left behind a place where a line break must or may stand.
fn gap(text: &str, flexible: bool, must: bool, may: bool) -> Vec<&str> {
    if flexible {
        return spaced(text, SPACES);
    }
    let line = text.strip_prefix('\n').filter(|_| must || may);
    line.into_iter().chain((!must).then_some(text)).collect()
}

/// The ways to read parameters.
fn read(style: Style, flexible: bool, text: &str) -> Vec<Vec<Written>> {
    let mut all = Vec::new();
    let mut todo: Vec<(Vec<Written>, &str)> =
        gap(text, flexible, false, style == Glm).into_iter().map(|rest| (Vec::new(), rest)).collect();
    if text.is_empty() || style == Glm && text == "\n" {
        all.push(vec![]);
    }
    if flexible && spaced(text, SPACES).contains(&"") {
        all.push(vec![]);
    }
    while let Some((list, rest)) = todo.pop() {
        let Some((written, rest)) = parameter(style, flexible, rest) else { continue };
        let list = [list, vec![written]].concat();
        if gap(rest, flexible, false, style != Qwen).contains(&"") {
            all.push(list.clone());
        }
        let must = style != Glm;
        todo.extend(gap(rest, flexible, must, !must).into_iter().map(|rest| (list.clone(), rest)));
    }
    all
}

/// The first parameter, and what is behind it.
fn parameter(style: Style, flexible: bool, text: &str) -> Option<(Written, &str)> {
    let [open, named, close] = style.tags();
    let (name, rest) = text.strip_prefix(open)?.split_once(named)?;
    let (mut rest, mut string) = (rest, None);
    if style == Deepseek {
        let (flag, behind) = rest.split_once("\">")?;
        string = Some(flag.parse().ok()?);
        rest = behind;
    }
    if style == Glm {
        let before = gap(rest, flexible, false, true);
        rest = before.iter().find_map(|rest| rest.strip_prefix("<arg_value>"))?;
    }
    let (value, rest) = rest.split_once(close)?;
    let mut value = value;
    if style == Qwen && !flexible {
        value = value.strip_prefix('\n')?.strip_suffix('\n')?;
    }
    Some((Written { name: name.to_owned(), value: value.to_owned(), string }, rest))
}

/// The JSON that the value of a parameter can be.
fn meanings(style: Style, flexible: bool, written: &Written) -> Vec<String> {
    let value = &*written.value;
    let mut all = Vec::new();
    if written.string != Some(false) {
        let mut texts = vec![value];
        if style == Qwen && flexible {
            texts.extend(value.strip_prefix('\n'));
            texts.extend(texts.clone().iter().filter_map(|text| text.strip_suffix('\n')));
        }
        all.extend(texts.into_iter().map(|text| Value::from(text).to_string()));
    }
    let close = style.tags()[2];
    let white = |c: char| " \t\r\n".contains(c);
    let (before, inner) = (value.len() - value.trim_start_matches(white).len(), value.trim_matches(white));
    let behind = value.len() - value.trim_end_matches(white).len();
    let near = if flexible { before <= SPACES && behind <= SPACES } else { before + behind == 0 };
    if written.string != Some(true)
        && near
        && let Ok(json) = serde_json::from_str::<Value>(inner)
        && !json.is_string()
        && !strings(&json).iter().any(|text| text.contains(close))
    {
        all.push(inner.to_owned());
    }
    all
}

/// All names and strings in a value.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(map) => map.iter().flat_map(|(k, v)| [vec![&**k], strings(v)].concat()).collect(),
        _ => vec![],
    }
}

/// Whether an undeclared parameter can have the name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.trim() == name && !name.contains(|c: char| c.is_control() || "<>\"".contains(c))
}

/// The objects that a text of parameters can mean.
fn objects(style: Style, flexible: bool, text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for list in read(style, flexible, text) {
        if !list.iter().all(|p| is_name(&p.name)) {
            continue;
        }
        let mut some = vec![String::new()];
        for written in &list {
            let name = Value::from(&*written.name);
            let of = meanings(style, flexible, written);
            let longer = |text: &String| {
                let comma = if text.is_empty() { "" } else { "," };
                of.iter().map(|value| format!("{text}{comma}{name}:{value}")).collect::<Vec<_>>()
            };
            some = some.iter().flat_map(longer).collect();
        }
        all.extend(some.into_iter().map(|members| format!("{{{members}}}")));
    }
    all
}

/// Schemas, and names and values of parameters, whether a schema names them or not.
#[derive(Deserialize)]
struct Parameters {
    schemas: Vec<String>,
    names: Vec<String>,
    values: Vec<String>,
}

struct ToolCase {
    schema: Value,
    style: Style,
    policy: Policy,
    any_order: bool,
}

impl ToolCase {
    fn tag(&self) -> String {
        let leaf = json!({"type": "json_schema", "json_schema": self.schema, "style": self.style.name(), "any_order": self.any_order});
        json!({"type": "structural_tag", "format": leaf}).to_string()
    }

    fn flexible(&self) -> bool {
        self.policy.whitespace != Whitespace::Compact
    }

    /// The grammar of the parameters, and that of the objects.
    fn grammars(&self, compiler: &Compiler) -> [CompiledGrammar; 2] {
        let tag = Constraint::builder()
            .policy(self.policy.clone())
            .structural_tag(self.tag())
            .unwrap_or_else(|e| panic!("{e}: {}", self.tag()));
        let order = if self.any_order { KeyOrder::Any } else { self.policy.key_order };
        let policy = Policy { key_order: order, ..self.policy.clone() };
        let own = Constraint::builder().policy(policy).json_schema(self.schema.to_string()).expect("valid");
        [tag, own].map(|c| compiler.compile(&c).unwrap_or_else(|e| panic!("{e}: {}", self.tag())))
    }

    fn random_text(&self, given: &Parameters, random: &mut Random) -> String {
        let mut list: Vec<Written> = Vec::new();
        for name in &given.names {
            if random.chance(if list.is_empty() && name == "a" { 60 } else { 14 }) {
                let string = (self.style == Deepseek).then(|| random.chance(50));
                list.push(Written { name: name.clone(), value: random.pick(&given.values).clone(), string });
            }
        }
        if list.len() > 1 && random.chance(20) {
            let at = random.below(list.len());
            let moved = list[at].clone();
            list.insert(0, moved);
            if random.chance(70) {
                list.remove(at + 1);
            }
        }
        let mut text = spelled(self.style, &list);
        let places: Vec<usize> = (0..=text.len()).filter(|&at| text.is_char_boundary(at)).collect();
        match random.below(8) {
            0 => text.insert_str(*random.pick(&places), ["\n", " ", "<", "\n\n"][random.below(4)]),
            1 if places.len() > 1 => drop(text.remove(places[random.below(places.len() - 1)])),
            2 => text = text.replace(">\n<", ["><", ">\n \n<", ">\n\n<"][random.below(3)]),
            3 => text.push('\n'),
            _ => {}
        }
        text
    }
}

fn cases(given: &Parameters) -> impl Iterator<Item = ToolCase> {
    let base = Policy::default();
    let wide = Policy { whitespace: Whitespace::Flexible { max: SPACES as u8 }, ..base.clone() };
    let any = Policy { key_order: KeyOrder::Any, ..base.clone() };
    let ways = [(base.clone(), false), (wide, false), (any, false), (base, true)];
    let schemas = given.schemas.iter().map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
    let all = schemas.flat_map(|schema| Style::ALL.map(|style| (schema.clone(), style)));
    all.enumerate().flat_map(move |(i, (schema, style))| {
        // Usually one form in addition to the first.
        let (first, other) = (ways[0].clone(), ways[1 + i % 3].clone());
        [first, other].map(|(policy, any_order)| ToolCase {
            schema: schema.clone(),
            style,
            policy,
            any_order,
        })
    })
}

#[test]
fn texts_mean_valid_objects() {
    let words = TestVocab::new(5, 80, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let given: Parameters = read_data("tool_parameters");
    let (seed, count) = (env::oracle_seed(), env::oracle_cases(400));
    let (mut taken, mut seen) = (0, 0);
    for (i, case) in cases(&given).enumerate() {
        let [tag, own] = case.grammars(&compiler);
        let mut random = Random::new(seed + 1_000 * i as u64);
        for _ in 0..count {
            let text = case.random_text(&given, &mut random);
            let objects = objects(case.style, case.flexible(), &text);
            let expected = objects.iter().any(|object| words.accepts(&own, object));
            let got = words.accepts(&tag, &text);
            assert_eq!(got, expected, "{text:?} as {objects:?} for {} {:?}", case.tag(), case.policy);
            (taken, seen) = (taken + usize::from(got), seen + 1);
        }
    }
    println!("{taken} of {seen} texts are parameters");
    assert!(taken * 20 > seen);
}

#[test]
fn whatever_is_written_is_valid() {
    let words = TestVocab::new(5, 80, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let given: Parameters = read_data("tool_parameters");
    let (seed, count) = (env::oracle_seed(), env::oracle_cases(400) / 20);
    let mut ended = 0;
    for (i, case) in cases(&given).enumerate() {
        let [tag, _] = case.grammars(&compiler);
        let validator =
            jsonschema::options().should_validate_formats(true).build(&case.schema).expect("valid");
        let mut random = Random::new(seed + 1_000 * i as u64);
        for _ in 0..count {
            let mut matcher = tag.matcher();
            let mut text = Vec::new();
            for _ in 0..random.below(120) {
                if matcher.is_terminated() {
                    break;
                }
                let legal: Vec<u32> = ffwd_testkit::vocab::row(&mut matcher).into_iter().collect();
                let byte = words.tokens[*random.pick(&legal) as usize].clone();
                // A tag is not met by chance.
                let ways =
                    [&b"</parameter>"[..], b"<", b"</arg_value>", "</｜DSML｜parameter>".as_bytes(), &byte];
                let way = random.pick(&ways);
                let mut next = matcher.fork();
                if way.iter().all(|&b| next.accept_token(words.byte(b)).is_ok()) {
                    matcher = next;
                    text.extend_from_slice(way);
                }
            }
            let end = matcher.shortest_completion(1 << 16).expect("a way to the end");
            text.extend_from_slice(&end);
            let text = String::from_utf8(text).expect("only text is written");
            let objects = objects(case.style, case.flexible(), &text);
            let valid = |object: &String| {
                serde_json::from_str(object).is_ok_and(|object: Value| validator.is_valid(&object))
            };
            assert!(objects.iter().any(valid), "{text:?} as {objects:?} for {}", case.tag());
            ended += 1;
        }
    }
    println!("{ended} texts");
}

/// Spans of a source come without quotes and escapes, and as JSON inside other values.
#[test]
fn spans_of_a_source() {
    let words = TestVocab::new(5, 80, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
        "a": {"type": "string", "x-verbatim": true, "minLength": 2},
        "b": {"type": "array", "items": {"type": "string", "x-verbatim": true}},
    }});
    for style in Style::ALL {
        let case = ToolCase { schema: schema.clone(), style, policy: Policy::default(), any_order: false };
        let quoting = |source: &str| {
            let spans = ffwd::constraint::substring::SubstringOptions::default();
            Constraint::builder().source(source, &spans).structural_tag(case.tag())
        };
        let grammar = compiler.compile(&quoting("say \"a<b\"\n").expect("valid")).expect("satisfiable");
        let text = |a: &str, b: &str| {
            let string = |is| (style == Deepseek).then_some(is);
            let (a, b) = ((a, string(true), "a"), (b, string(false), "b"));
            spelled(
                style,
                &[a, b].map(|(value, string, name)| Written {
                    name: name.into(),
                    value: value.into(),
                    string,
                }),
            )
        };
        for (a, b, expected) in [
            ("y \"a", r#"["b\"\n"]"#, true),
            ("a<b\"\n", "[]", true),
            ("y", "[]", false),
            ("yx", "[]", false),
            ("a<", r#"["ba"]"#, false),
        ] {
            assert_eq!(words.accepts(&grammar, &text(a, b)), expected, "{}", text(a, b));
        }
        let close = style.tags()[2];
        let error = quoting(&format!("a < b{close}")).expect_err("it closes the parameter");
        assert!(error.message().contains(close) && error.kind() == ErrorKind::Unsupported, "{error}");
    }
}

/// What cannot be written as parameters is refused, with the place in the document.
#[test]
fn what_cannot_be_written() {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let cases = [
        (json!({"type": "array"}), ErrorKind::Unsatisfiable, "the schema allows none"),
        (json!({"enum": ["a", 1]}), ErrorKind::Unsatisfiable, "the schema allows none"),
        (object(json!({"a>": {}})), ErrorKind::Unsupported, "cannot have the name \"a>\""),
        (object(json!({"": {}})), ErrorKind::Unsupported, "cannot have the name \"\""),
        (object(json!({"a ": {}})), ErrorKind::Unsupported, "cannot have the name \"a \""),
        (object(json!({"a": {"const": "x</parameter>"}})), ErrorKind::Unsupported, "closes a parameter"),
        (object(json!({"a": {"enum": [["</parameter>"], 1]}})), ErrorKind::Unsupported, "closes a parameter"),
        (
            object(json!({"a": object(json!({"</parameter>": {}}))})),
            ErrorKind::Unsupported,
            "closes a parameter",
        ),
    ];
    for (schema, kind, message) in cases {
        let case = ToolCase { schema, style: Minimax, policy: Policy::default(), any_order: false };
        let error = Constraint::structural_tag(case.tag()).expect_err(&case.tag());
        assert_eq!((error.kind(), error.pointer()), (kind, Some("/format/json_schema")), "{error}");
        assert!(error.message().contains(message), "{error}");
    }
    // A forbidden name may have any form.
    let schema = object(json!({"a>": false, "b": {"type": "integer"}}));
    let case = ToolCase { schema, style: Minimax, policy: Policy::default(), any_order: false };
    Constraint::structural_tag(case.tag()).expect("nothing has that name");
}
