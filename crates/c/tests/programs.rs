//! Programs in C and C++ over the library: every mask and answer is that of the Rust engine, hostile
//! calls end in errors, and the examples print what they promise.
//!
//! The Rust side writes scripts of calls with the answers of the engine; `replay.c` and `replay.cpp`
//! make the calls. Without a compiler the tests skip.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ffwd_engine::constraint::options::{ConstraintOptions, Machine};
use ffwd_engine::constraint::substring::SubstringOptions;
use ffwd_engine::constraint::token_machine::{Labels, TokenMasks};
use ffwd_engine::constraint::tools::{ToolChoice, ToolStyle, Tools};
use ffwd_engine::{Compiler, Constraint, Matcher, Policy, TokenId, Vocabulary, Whitespace};
use ffwd_testkit::random::Random;
use ffwd_testkit::{data, env};

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 12}, "kind": {"enum": ["car", "bicycle", "caravan"]},
    "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+-[0-9]{2}$"}, "maxItems": 3},
    "price": {"type": "number", "minimum": 0}}, "required": ["name", "kind"], "additionalProperties": false}"#;
const TOOLS: &str = r#"[{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]"#;
const TAG: &str = r#"{"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f="],
    "tags": [{"begin": "<f=add>", "end": "</f>", "content": {"type": "json_schema", "json_schema": {
    "type": "array", "items": {"type": "integer"}}}}]}}"#;
const LARK: &str = "start: word (\" \" word)*\nword: /[a-z]{2,5}/";
const GBNF: &str = "root ::= \"(\" root \")\" | [0-9]+";
const SOURCE: &str = "Either party may terminate with a notice of thirty days.";

/// The small tokenizer that the runtime embeds.
fn small_tokenizer() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runtime/assets/extract-5m/tokenizer.json")
}

/// Compiles a program of this crate with the library; `None` without a compiler.
fn program(source: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_c = source.ends_with(".c");
    let (compiler, standard) = if is_c { ("cc", "-std=c11") } else { ("c++", "-std=c++17") };
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("skipped: there is no compiler `{compiler}`");
        return None;
    }
    let test = std::env::current_exe().expect("the path of the test");
    let built = test.parent().expect("a folder");
    let library = env::c_library().map_or_else(|| built.join("libffwd_c.a"), PathBuf::from);
    let program = built.join(format!("ffwd-c-{}-{}", source.replace(['/', '.'], "-"), std::process::id()));
    let flags = env::c_flags();
    let status = Command::new(compiler)
        .args([standard, "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_POSIX_C_SOURCE=200809L"])
        .args(flags.split_whitespace())
        .arg("-I")
        .arg(folder.join("include"))
        .arg(folder.join(source))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .status();
    assert!(status.expect("the compiler runs").success(), "{source} does not compile");
    Some(program)
}

/// Runs a program and returns what it prints.
fn run(program: &Path, arguments: &[&Path]) -> String {
    let runner = env::c_runner();
    let mut words = runner.split_whitespace().map(Path::new).chain([program]);
    let output = Command::new(words.next().expect("a program")).args(words).args(arguments).output();
    let output = output.expect("the program runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} fails: {out}{err}", program.display());
    out.into_owned()
}

/// Calls with the engine's answers.
struct Script {
    text: Vec<u8>,
    random: Random,
    masks: usize,
}

impl Script {
    fn new(tokenizer: &Path, seed: u64) -> Self {
        let path = tokenizer.to_str().expect("a path in UTF-8");
        let text = format!("V {}\n{path}\n", path.len()).into_bytes();
        Script { text, random: Random::new(seed), masks: 0 }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.extend(format!("{line}\n").bytes());
    }

    fn list(&mut self, command: &str, tokens: &[TokenId]) {
        let mut line = format!("{command} {}", tokens.len());
        tokens.iter().for_each(|token| write!(line, " {token}").expect("memory"));
        self.line(format_args!("{line}"));
    }

    fn constraint(&mut self, kind: &str, text: &str, options: &str) {
        self.line(format_args!("C {kind} {} {}\n{text}{options}", text.len(), options.len()));
    }

    /// Asks for everything at a position. Returns the legal tokens.
    fn position(&mut self, matcher: &mut Matcher) -> Vec<TokenId> {
        let mut row = vec![0u32; matcher.vocabulary().bitmask_words()];
        matcher.fill_bitmask(&mut row);
        let digest = row.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
            (hash ^ u64::from(*word)).wrapping_mul(0x100_0000_01b3)
        });
        self.masks += 1;
        self.line(format_args!("m {digest:x}"));
        let flags = [matcher.is_accepting(), matcher.is_terminated(), matcher.is_finished()].map(u8::from);
        self.line(format_args!("e {} {} {}", flags[0], flags[1], flags[2]));
        let bits = row.iter().enumerate().flat_map(|(at, word)| {
            (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| (at * 32 + bit) as TokenId)
        });
        bits.collect()
    }

    /// Follows some tokens, and then random ones, at most `steps`; on the way everything is asked for.
    fn walk(&mut self, matcher: &mut Matcher, tokens: &[TokenId], steps: usize) {
        for step in 0..tokens.len().max(steps) {
            let legal = self.position(matcher);
            if matcher.is_finished() || legal.is_empty() {
                break;
            }
            if step % 5 == 0 {
                let forced = matcher.forced_tokens();
                self.list("f", &forced);
            }
            let token = tokens.get(step).copied().unwrap_or_else(|| *self.random.pick(&legal));
            let illegal = self.random.below(matcher.vocabulary().logits_size()) as TokenId;
            if legal.binary_search(&illegal).is_err() {
                self.line(format_args!("x {illegal}"));
            }
            let two = [token, illegal];
            let ends = two.iter().any(|id| matcher.vocabulary().eos().contains(id));
            if !ends {
                let count = matcher.validate_tokens(&two);
                self.list(&format!("v {count}"), &two);
            }
            matcher.accept_token(token).expect("it is legal");
            self.line(format_args!("a {token}"));
            if self.random.chance(15) {
                self.turn_back(matcher, token);
            }
        }
        let accepted = matcher.num_accepted() + usize::from(matcher.is_finished());
        matcher.rollback(accepted);
        self.line(format_args!("z"));
        self.position(matcher);
    }

    /// Goes back by some tokens and forward again, on a fork.
    fn turn_back(&mut self, matcher: &mut Matcher, last: TokenId) {
        let accepted = matcher.num_accepted() + usize::from(matcher.is_finished());
        let mut all = matcher.tokens();
        if matcher.is_finished() {
            all.push(last);
        }
        let count = 1 + self.random.below(accepted.min(9));
        matcher.rollback(count);
        self.line(format_args!("k\nr {count}"));
        self.position(matcher);
        for &token in &all[accepted - count..] {
            matcher.accept_token(token).expect("it was accepted before");
            self.line(format_args!("a {token}"));
        }
    }

    /// Replays the script in C and C++.
    fn replay(self, name: &str) {
        let file = std::env::temp_dir().join(format!("ffwd-{name}-{}.script", std::process::id()));
        std::fs::write(&file, &self.text).expect("the script can be written");
        for source in ["tests/replay.c", "tests/replay.cpp"] {
            let Some(program) = program(source) else { continue };
            assert_eq!(run(&program, &[&file]), format!("{} masks\n", self.masks), "{name}, {source}");
            std::fs::remove_file(program).expect("the program is there");
        }
        std::fs::remove_file(file).expect("the script is there");
    }
}

/// A constraint of every kind: its name, its text, its options, and what it is in Rust.
fn every_kind() -> Vec<(&'static str, &'static str, &'static str, Constraint)> {
    let policy = Policy { whitespace: Whitespace::SingleSpace, ..Policy::default() };
    let flexible = Policy { whitespace: Whitespace::Flexible { max: 3 }, ..Policy::default() };
    let spaced = || Constraint::builder().policy(policy.clone());
    let tools = Tools::parse(TOOLS).unwrap();
    let hermes = ToolStyle::by_name("hermes").unwrap();
    let fsm = Machine { transitions: vec![(0, vec![7, 9], 1), (1, vec![300], 0)], accept: vec![1] };
    let masks = TokenMasks::new([vec![5, 6], vec![7]]).repeat(1, Some(3));
    let labels = Labels::new(["sport", "science", "politics"]).several(", ").at_most(2);
    vec![
        ("json_schema", SCHEMA, "", Constraint::json_schema(SCHEMA).unwrap()),
        ("json_schema", SCHEMA, r#"{"whitespace": "single_space"}"#, spaced().json_schema(SCHEMA).unwrap()),
        (
            "json_schema",
            SCHEMA,
            r#"{"whitespace": 3, "strict": true}"#,
            Constraint::builder().policy(flexible).json_schema(SCHEMA).unwrap(),
        ),
        ("json_object", "", "{}", Constraint::json_object()),
        ("regex", "(ab|c)+-[0-9]{3}", "{}", Constraint::regex("(ab|c)+-[0-9]{3}").unwrap()),
        ("choice", r#"["yes", "no", "néant"]"#, "{}", Constraint::choice(["yes", "no", "néant"]).unwrap()),
        ("lark", LARK, "{}", Constraint::builder().lark(LARK).unwrap()),
        ("gbnf", GBNF, "{}", Constraint::builder().gbnf(GBNF).unwrap()),
        ("ebnf", GBNF, "{}", Constraint::ebnf(GBNF).unwrap()),
        ("structural_tag", TAG, "{}", Constraint::structural_tag(TAG).unwrap()),
        ("substring", SOURCE, "{}", Constraint::substring(SOURCE, &SubstringOptions::words()).unwrap()),
        ("pattern", "UPPER+ ':' ' ' LOWER+", "{}", Constraint::pattern("UPPER+ ':' ' ' LOWER+").unwrap()),
        (
            "labels",
            r#"["sport", "science", "politics"]"#,
            r#"{"separator": ", ", "at_most": 2}"#,
            Constraint::labels(&labels),
        ),
        ("token_masks", "[[5, 6], [7]]", r#"{"at_most": 3}"#, Constraint::token_masks(&masks).unwrap()),
        (
            "token_fsm",
            r#"{"transitions": [[0, [7, 9], 1], [1, [300], 0]], "accept": [1]}"#,
            "{}",
            ConstraintOptions::default().token_fsm(fsm),
        ),
        (
            "tools",
            TOOLS,
            r#"{"style": "hermes"}"#,
            tools.constraint(hermes, &ToolChoice::default(), Policy::default()).unwrap(),
        ),
    ]
}

#[test]
fn masks_of_every_kind_are_those_of_rust() {
    let vocab = Vocabulary::from_file(small_tokenizer()).unwrap();
    let compiler = Compiler::new(vocab.clone());
    let mut script = Script::new(&small_tokenizer(), 1);
    for (kind, text, options, constraint) in every_kind() {
        let grammar = compiler.compile(&constraint).unwrap();
        for _ in 0..if env::long() { 4 } else { 2 } {
            script.constraint(kind, text, if options.is_empty() { "{}" } else { options });
            script.walk(&mut grammar.matcher(), &[], 40);
        }
    }
    assert!(script.masks > 500);
    script.replay("kinds");
}

#[test]
fn masks_of_real_schemas_are_those_of_rust() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data; set FFWD_BENCH_DIR");
        return;
    };
    let entries = data::load(&dir.join("maskbench-dev.jsonl.zst")).expect("the schemas");
    // Every schema on request.
    let every = if env::long() { 1 } else { 50 };
    for tokenizer in [small_tokenizer(), dir.join("tokenizers/llama3/tokenizer.json")] {
        let vocab = Vocabulary::from_file(&tokenizer).expect("a tokenizer");
        let compiler = Compiler::new(vocab.clone());
        let mut script = Script::new(&tokenizer, 2);
        let mut schemas = 0;
        for entry in entries.iter().step_by(every) {
            let Ok(constraint) = Constraint::json_schema(&entry.schema) else { continue };
            let Ok(grammar) = compiler.compile(&constraint) else { continue };
            script.constraint("json_schema", &entry.schema, "{}");
            let mut matcher = grammar.matcher();
            let record = entry.tests.iter().find(|test| test.valid);
            let text = record.and_then(|test| data::canonical(&test.data)).unwrap_or_default();
            let mut tokens = vocab.encode(&text).expect("it encodes");
            // Records with another order of properties go on at random.
            tokens.truncate(matcher.validate_tokens(&tokens).min(60));
            script.walk(&mut matcher, &tokens, 20);
            schemas += 1;
        }
        println!("{schemas} schemas, {} masks, {} tokens", script.masks, vocab.len());
        assert!(schemas * every > 900, "{schemas} schemas");
        script.replay("schemas");
    }
}

#[test]
fn hostile_calls_end_in_errors() {
    let Some(program) = program("tests/hostile.c") else { return };
    assert_eq!(run(&program, &[&small_tokenizer()]), "ok\n");
    std::fs::remove_file(program).expect("the program is there");
}

#[test]
fn examples_print_records() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for source in ["examples/record.c", "examples/record.cpp"] {
        let Some(program) = program(source) else { continue };
        let record = run(&program, &[&small_tokenizer(), &folder.join("person.schema.json")]);
        let value: serde_json::Value = serde_json::from_str(&record).expect("the record is JSON");
        assert!(value["name"].is_string() && value["age"].is_u64(), "{record}");
        std::fs::remove_file(program).expect("the program is there");
    }
}
