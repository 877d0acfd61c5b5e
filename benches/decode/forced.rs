//! Gains from forced runs alone. A document that is forced as a whole is compared with reading it
//! as a prompt. Records with a growing share of forced tokens are compared with the ceiling from
//! the measured costs of forwards.
//!
//! Decoding only: the time for reading the prompt is subtracted. The model's tokenisation of forced
//! runs is learned from output to output, so the first output of an engine is shown separately.

use ffwd::vocab::TokenId;
use ffwd::{Engine, Mode, Request, Result, extract};

const ROUNDS: usize = 7;
const TEXT: &str = "Bright Glacier Consulting sells lamps and chairs.";

/// Milliseconds without those of reading the prompt, and counts.
struct Run {
    decode: f64,
    tokens: Vec<TokenId>,
    forwards: usize,
    forced: usize,
}

/// The first generation of a new engine, and the fastest of further ones.
fn run(schema: &str, change: fn(Request) -> Request) -> Result<(Run, Run)> {
    let engine = engine()?;
    let prompt = forward(&engine, &[], &prompt(&engine, schema)?, false)?;
    let once = || -> Result<Run> {
        let request = extract::embedded::request(schema, TEXT)?.lookup(false).draft_model(false);
        let output = engine.generate(&change(request.max_tokens(400)))?;
        let (tokens, stats) = (output.tokens, output.stats);
        let (forwards, forced) = (stats.forwards, stats.forced);
        // Without a forward the prompt was not read.
        let decode = stats.seconds * 1e3 - if forwards == 0 { 0.0 } else { prompt };
        Ok(Run { decode, tokens, forwards, forced })
    };
    let (first, mut best) = (once()?, once()?);
    for _ in 1..ROUNDS {
        let run = once()?;
        if run.decode < best.decode {
            best = run;
        }
    }
    Ok((first, best))
}

fn engine() -> Result<Engine> {
    Ok(Engine::embedded()?.with_prefix_bytes(0))
}

fn prompt(engine: &Engine, schema: &str) -> Result<Vec<TokenId>> {
    engine.vocabulary().encode_template(&extract::embedded::prompt(schema, TEXT).to_text())
}

/// Fastest milliseconds of a forward over tokens after others, with the logits of all or of the
/// last.
fn forward(engine: &Engine, before: &[TokenId], tokens: &[TokenId], all: bool) -> Result<f64> {
    let mut cache = engine.target().new_cache()?;
    if !before.is_empty() {
        engine.target().forward(before, &mut cache, 0..0)?;
    }
    let rows = if all { 0..tokens.len() } else { tokens.len() - 1..tokens.len() };
    let mut best = f64::INFINITY;
    for _ in 0..3 * ROUNDS {
        cache.truncate(before.len());
        let start = std::time::Instant::now();
        engine.target().forward(tokens, &mut cache, rows.clone())?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// A name, and the change of the request.
type Arm = (&'static str, fn(Request) -> Request);

/// Numbered names, which the model tokenises differently.
fn numbered() -> String {
    let words = ["invoice", "total", "customer", "city", "order", "number", "date", "name", "amount"];
    let members: Vec<String> =
        (0..40).map(|i| format!("\"{}_{i}\":\"{}\"", words[i % 9], words[(i * 5 + 1) % 9])).collect();
    format!("{{{}}}", members.join(","))
}

/// Records as the model was trained to write them, of more than 200 tokens together.
fn records(engine: &Engine) -> Result<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/eval/synthetic_seen.jsonl");
    let lines = std::fs::read_to_string(path).unwrap_or_default();
    let golds = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut all = Vec::new();
    for gold in golds.map(|entry| entry["gold"].to_string()) {
        all.push(gold);
        if engine.vocabulary().encode(&all.join(","))?.len() > 200 {
            break;
        }
    }
    Ok(format!("[{}]", all.join(",")))
}

/// A document of one constant.
fn whole(engine: &Engine, what: &str, document: &str) -> Result<()> {
    let schema = format!("{{\"const\":{document}}}");
    let prompt = prompt(engine, &schema)?;
    let tokens = engine.vocabulary().encode(document)?;
    let read = forward(engine, &prompt, &tokens, false)?;
    println!("\na document of one constant, {what}: {} tokens; read as a prompt: {read:.1} ms", tokens.len());
    let arms: [Arm; 5] = [
        ("off", |r| r.mode(Mode::Off)),
        ("exact", |r| r),
        ("exact, drafts to 400", |r| r.max_draft(400)),
        ("exact, ungated to 400", |r| r.without_gate().max_draft(400)),
        ("canonical", |r| r.mode(Mode::Canonical)),
    ];
    for (name, change) in arms {
        let (first, best) = run(&schema, change)?;
        let own = forward(engine, &prompt, &best.tokens, true)?;
        println!(
            "{name:<22} {:>4} tokens; first: {:>4} forwards {:>8.1} ms, {:>5.2} times reading it; then {:>4} forwards \
             {:>8.1} ms, {:>5.2} times reading it, {:>5.2} times these tokens with their logits",
            best.tokens.len(),
            first.forwards,
            first.decode,
            first.decode / read,
            best.forwards,
            best.decode,
            best.decode / read,
            best.decode / own,
        );
    }
    Ok(())
}

/// Records whose keys are a growing part of them.
fn curve(engine: &Engine) -> Result<()> {
    println!("\nforced runs only, by the share of forced tokens");
    println!(
        "{:>8} {:>7} {:>9} {:>9} {:>8} {:>8} {:>9} {:>8}",
        "share", "tokens", "off ms", "exact ms", "first", "then", "ceiling", "below"
    );
    // Members, words of a key, letters of a value.
    for (members, words, letters) in
        [(1, 1, 160), (4, 1, 24), (6, 1, 12), (8, 2, 8), (10, 3, 4), (10, 4, 2), (10, 6, 1), (8, 10, 1)]
    {
        let word =
            ["invoice", "number", "customer", "total", "order", "date", "name", "city", "amount", "item"];
        let names: Vec<String> = (0..members)
            .map(|m| (0..words).map(|w| word[(m + w) % 10]).collect::<Vec<_>>().join("_") + &format!("_{m}"))
            .collect();
        let properties: Vec<String> = names
            .iter()
            .map(|n| format!("\"{n}\":{{\"type\":\"string\",\"pattern\":\"^[a-z]{{{letters}}}$\"}}"))
            .collect();
        let required: Vec<String> = names.iter().map(|n| format!("\"{n}\"")).collect();
        let schema = format!(
            "{{\"type\":\"object\",\"properties\":{{{}}},\"required\":[{}],\"additionalProperties\":false}}",
            properties.join(","),
            required.join(",")
        );
        let (_, off) = run(&schema, |r| r.mode(Mode::Off))?;
        let (first, exact) = run(&schema, |r| r)?;
        let (_, all) = run(&schema, |r| r.without_gate().max_draft(64))?;
        // Every forced token as a row of the forward before its run, none rejected; forwards take
        // what they take, with all logits, halfway through the record.
        let count = off.tokens.len();
        let prompt = prompt(engine, &schema)?;
        let before = [&prompt[..], &off.tokens[..count / 2]].concat();
        let length = (all.forced / members).max(1);
        let next: Vec<TokenId> = (0..=length).map(|i| off.tokens[(count / 2 + i) % count]).collect();
        let plain = forward(engine, &before, &next[..1], true)?;
        let row = (forward(engine, &before, &next, true)? - plain) / length as f64;
        let ideal = (count - all.forced) as f64 * plain + all.forced as f64 * row.min(plain);
        let ceiling = count as f64 * plain / ideal;
        println!(
            "{:>8.2} {:>7} {:>9.2} {:>9.2} {:>7.2}x {:>7.2}x {:>8.2}x {:>6.0} %",
            all.forced as f64 / count as f64,
            count,
            off.decode,
            exact.decode,
            off.decode / first.decode,
            off.decode / exact.decode,
            ceiling,
            (1.0 - off.decode / exact.decode / ceiling) * 100.0,
        );
    }
    Ok(())
}

pub(super) fn run_all() -> Result<()> {
    let engine = engine()?;
    println!("target, ms by tokens: {:.3?}", engine.target().cost_table().points());
    whole(&engine, "numbered names", &numbered())?;
    whole(&engine, "records", &records(&engine)?)?;
    curve(&engine)
}
