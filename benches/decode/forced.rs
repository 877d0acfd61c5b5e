//! What forced runs are worth by themselves: a document that is forced as a whole against reading it as a
//! prompt, and records with more and more of their tokens forced against the ceiling that the measured costs
//! of forwards set. Decoding only: the time of the first forward, which reads the prompt, is taken off.

use ffwd::{Engine, Mode, Request, Result, extract};

const ROUNDS: usize = 7;
const TEXT: &str = "Bright Glacier Consulting sells lamps and chairs.";

/// Fastest milliseconds behind the prompt, and figures.
struct Run {
    decode: f64,
    tokens: usize,
    forwards: usize,
    forced: usize,
}

fn run(engine: &Engine, schema: &str, change: fn(Request) -> Request) -> Result<Run> {
    let mut best = Run { decode: f64::INFINITY, tokens: 0, forwards: 0, forced: 0 };
    for _ in 0..ROUNDS {
        let request = extract::request(schema, TEXT)?.lookup(false).draft_model(false);
        let stats = engine.generate(&change(request.max_tokens(400)))?.stats;
        let prompt = stats.spent.map_or(0.0, |s| s.prompt);
        best.decode = best.decode.min((stats.seconds - prompt) * 1e3);
        (best.tokens, best.forwards) = (stats.tokens, stats.forwards);
        best.forced = stats.forced;
    }
    Ok(best)
}

/// A name, and what is changed about the request.
type Arm = (&'static str, fn(Request) -> Request);

/// Numbered names, which the model splits in a way of its own.
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
    let tokens = engine.vocabulary().encode(document)?;
    let prompt = engine.vocabulary().encode_template(&extract::prompt(&schema, TEXT).to_text())?;
    let mut cache = engine.target().new_cache()?;
    engine.target().forward(&prompt, &mut cache, 0..0)?;
    let read = (0..ROUNDS).map(|_| -> Result<f64> {
        cache.truncate(prompt.len());
        let start = std::time::Instant::now();
        engine.target().forward(&tokens, &mut cache, tokens.len() - 1..tokens.len())?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    });
    let read = read.collect::<Result<Vec<f64>>>()?.into_iter().fold(f64::INFINITY, f64::min);
    println!("\na document of one constant, {what}: {} tokens; read as a prompt: {read:.1} ms", tokens.len());
    let arms: [Arm; 6] = [
        ("off", |r| r.mode(Mode::Off)),
        ("exact", |r| r),
        ("exact, no branches", |r| r.branches(false)),
        ("exact, drafts to 64", |r| r.max_draft(64)),
        ("exact, ungated to 64", |r| r.ungated().max_draft(64)),
        ("canonical", |r| r.mode(Mode::Canonical)),
    ];
    for (name, change) in arms {
        let r = run(engine, &schema, change)?;
        println!(
            "{name:<22} {:>4} tokens {:>4} forwards {:>8.1} ms, {:>5.2} times reading it",
            r.tokens,
            r.forwards,
            r.decode,
            r.decode / read
        );
    }
    Ok(())
}

/// Records whose keys are a growing part of them.
fn curve(engine: &Engine) -> Result<()> {
    println!("\nforced runs only, by the share of forced tokens");
    println!(
        "{:>8} {:>7} {:>9} {:>9} {:>8} {:>8}",
        "share", "tokens", "off ms", "exact ms", "speedup", "ceiling"
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
        let off = run(engine, &schema, |r| r.mode(Mode::Off))?;
        let exact = run(engine, &schema, |r| r)?;
        let all = run(engine, &schema, |r| r.ungated().max_draft(64))?;
        // Every forced token as a row of the forward before its run, none rejected.
        let costs = engine.target().cost_table();
        let length = (all.forced as f64 / members as f64).max(1.0);
        let row = (costs.ms(1 + length.round() as usize) - costs.ms(1)) / length.round();
        let plain = costs.ms(1);
        let ideal = (all.tokens - all.forced) as f64 * plain + all.forced as f64 * row.min(plain);
        println!(
            "{:>8.2} {:>7} {:>9.2} {:>9.2} {:>7.2}x {:>7.2}x",
            all.forced as f64 / all.tokens as f64,
            off.tokens,
            off.decode,
            exact.decode,
            off.decode / exact.decode,
            off.tokens as f64 * plain / ideal
        );
    }
    Ok(())
}

pub(super) fn run_all() -> Result<()> {
    let engine = Engine::embedded()?.with_prefix_bytes(0);
    println!("target, ms by tokens: {:.3?}", engine.target().cost_table().points());
    whole(&engine, "numbered names", &numbered())?;
    whole(&engine, "records", &records(&engine)?)?;
    curve(&engine)
}
