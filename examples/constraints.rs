//! One constraint of each kind, with its legal tokens, its forced runs and a complete output.
//!
//! cargo run --release --no-default-features --example constraints
//!
//! No language model runs here. A toy model takes its place. It prefers random tokens first, and
//! the longer the output, the more it prefers tokens that close something. Every output satisfies
//! its constraint, whatever the model prefers.

use ffwd::constraint::tools::{ToolChoice, ToolStyle, Tools};
use ffwd::{Compiler, Constraint, Matcher, Policy, Result, TokenId, Vocabulary};

/// Tokenizer of the embedded models; its end token has id 2.
const TOKENIZER: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/runtime/assets/extract-5m/tokenizer.json"));
const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string", "minLength": 1},
    "born": {"type": "string", "format": "date"}, "rank": {"enum": ["low", "high"]}},
    "required": ["name", "born", "rank"], "additionalProperties": false}"#;
const RECORD_OR_REFUSAL: &str = r#"{"type": "structural_tag", "format": {"type": "or", "elements": [
    {"type": "tag", "begin": "<record>", "content": {"type": "json_schema", "json_schema":
        {"type": "array", "items": {"type": "integer"}, "minItems": 2}}, "end": "</record>"},
    {"type": "const_string", "value": "I cannot help with that."}]}}"#;
const CALLS: &str = r#"
start: NAME "(" [argument ("," argument)*] ")"
?argument: start | INT
NAME: /[a-z]{1,8}/
%import common.INT
"#;
const TOOLS: &str = include_str!("data/tools.structural_tag.json");
const LONGEST: usize = 400;

/// Name of a kind of constraint, an example, and a prefix for the second look at it.
type Case = (&'static str, Constraint, &'static str);

fn cases() -> Result<Vec<Case>> {
    let word = Constraint::regex("[a-z]{3,6}")?;
    let label = Constraint::choice(["positive", "negative", "neutral"])?;
    Ok(vec![
        ("JSON Schema", Constraint::json_schema(SCHEMA)?, r#"{"name":"Ada""#),
        ("any JSON object", Constraint::json_object(), r#"{"a":[1,"#),
        ("regular expression", Constraint::regex(r"20[0-9]{2}-(0[1-9]|1[0-2])")?, "2024"),
        ("element pattern", Constraint::pattern("UPPER+ ':' ' ' LOWER{2,}")?, "KING"),
        ("choice", label.clone(), "ne"),
        ("grammar, GBNF", Constraint::builder().gbnf(include_str!("data/expression.gbnf"))?, "sqrt(2 "),
        ("grammar, Lark", Constraint::builder().lark(CALLS)?, "add(1,"),
        ("structural tag", Constraint::structural_tag(RECORD_OR_REFUSAL)?, "<record>[1"),
        ("tool calls in text", Constraint::structural_tag(TOOLS)?, "Let me see: <function=g"),
        ("tools", tools()?, "So:\n<tool_call>\n{\"name\": \"a"),
        ("then", Constraint::regex("Answer: ")?.then(&label)?, "Answer"),
        ("or", label.or(&Constraint::regex("[1-5] stars?")?)?, "3"),
        ("and, not", word.and(&Constraint::choice(["foo", "bar"])?.not()?)?, "fo"),
    ])
}

/// Replies with or without calls of functions, in the style of Qwen3.
fn tools() -> Result<Constraint> {
    let tools = Tools::parse(include_str!("data/tools.json"))?;
    tools.constraint(ToolStyle::Hermes, &ToolChoice::default(), Policy::default())
}

fn main() -> Result<()> {
    let vocab = Vocabulary::from_bytes(TOKENIZER)?.with_eos(vec![2]);
    let compiler = Compiler::new(vocab.clone());
    for (number, (name, constraint, prefix)) in cases()?.into_iter().enumerate() {
        let grammar = compiler.compile(&constraint)?;
        println!("{name}");
        let mut matcher = grammar.matcher();
        show("at the start", &mut matcher);
        for token in vocab.encode(prefix)? {
            matcher.accept_token(token)?;
        }
        show(&format!("after {prefix:?}"), &mut matcher);
        let (text, complete) = write(&mut matcher, number as u64);
        println!("  and then: {text:?}{}\n", if complete { "" } else { " (not finished)" });
    }
    Ok(())
}

/// Prints the number of legal tokens, some of them, and the forced run.
fn show(place: &str, matcher: &mut Matcher) {
    let vocab = matcher.vocabulary().clone();
    let legal = legal(matcher);
    let name = |id: &TokenId| match vocab.token_bytes(*id) {
        [] => "the end".to_string(),
        bytes => format!("{:?}", String::from_utf8_lossy(bytes)),
    };
    let some: Vec<String> = legal.iter().step_by(legal.len().div_ceil(4).max(1)).map(name).collect();
    let forced = String::from_utf8_lossy(&matcher.forced_bytes()).into_owned();
    println!("  {place}: {} of {} tokens, such as {}", legal.len(), vocab.len(), some.join(" "));
    if !forced.is_empty() {
        println!("    forced: {forced:?}");
    }
}

fn legal(matcher: &mut Matcher) -> Vec<TokenId> {
    let mut row = vec![0u32; matcher.vocabulary().bitmask_words()];
    matcher.fill_bitmask(&mut row);
    (0..row.len() as TokenId * 32).filter(|t| row[*t as usize / 32] >> (t % 32) & 1 == 1).collect()
}

/// Writes the rest of the output: at each step the legal token that the toy model likes best, up to
/// the end token.
fn write(matcher: &mut Matcher, seed: u64) -> (String, bool) {
    let vocab = matcher.vocabulary().clone();
    let mut text = Vec::new();
    for step in 0..LONGEST {
        let best = legal(matcher).into_iter().max_by_key(|&t| liking(vocab.token_bytes(t), t, step, seed));
        // Never `None`: at least one token is legal until the output ends.
        let Some(best) = best else { break };
        matcher.accept_token(best).expect("its bit is set");
        if vocab.eos().contains(&best) {
            return (String::from_utf8_lossy(&text).into_owned(), true);
        }
        text.extend_from_slice(vocab.token_bytes(best));
    }
    (String::from_utf8_lossy(&text).into_owned(), false)
}

/// Score of a token in the toy model: noise, a bonus for endings that grows with each step, and a
/// penalty for unusual characters.
fn liking(bytes: &[u8], token: TokenId, step: usize, seed: u64) -> i64 {
    let noise = (u64::from(token) + 1).wrapping_mul(seed * 2 + 0x9e37_79b9_7f4a_7c15) ^ (step as u64) << 40;
    let noise = (noise.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 44) as i64 % 1000;
    let love = match bytes {
        [] => 200,
        _ if bytes.iter().any(|b| b"\"}])>".contains(b)) => 60,
        _ => 0,
    };
    let plain = bytes.iter().all(|b| b.is_ascii_alphanumeric() || b" \"{}[](),:<>=/.-+".contains(b));
    noise + love * step as i64 - if plain { 0 } else { 2000 }
}
