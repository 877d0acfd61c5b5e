//! The divergence of the unverified modes from plain masked decoding: every output of some small
//! constraints with its probability, once token by token, once with forced runs emitted unverified.
//!
//! ```text
//! cargo bench --bench mode_divergence
//! ```
//!
//! Outputs less likely than the cut are left out; their probability is in the table. Temperature 1,
//! embedded model. There are no drafts: in the unverified modes the end of a draft decides which
//! tokens are verified, so the modes are taken as defined. `FFWD_WRITE_TABLES` writes the table
//! `distances` into `docs/benchmarks.md`.

use std::collections::BTreeMap;

use clap::Parser;
use ffwd::model::KvCache;
use ffwd::{
    CompiledGrammar, Constraint, Engine, Error, ErrorKind, Matcher, Mode, Prompt, Result, TokenId, extract,
};
use ffwd_testkit::tables;

/// Compare the unverified modes with plain masked decoding.
#[derive(Parser)]
struct Args {
    /// Accepted and ignored: cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

/// Outputs of less probability are not followed.
const CUT: f64 = 1e-6;
/// Forwards for one distribution.
const MOST: usize = 20_000;

const TEXT: &str = "Invoice INV-20417 from Bright Glacier Consulting, issued 14 March 2024. We ask for 1,840.00 EUR \
                    within 30 days. Second reminder, urgent. Not paid yet.";

/// A distribution over texts.
#[derive(Default)]
struct Distribution {
    texts: BTreeMap<String, f64>,
    /// Probability of the outputs that were not followed.
    cut: f64,
    /// Tokens emitted unverified, and all, on average.
    unverified: f64,
    tokens: f64,
    /// Mean over the outputs: probability, under plain masked decoding, of the unverified tokens.
    survival: f64,
    forwards: usize,
}

/// An output in progress.
struct Open {
    matcher: Matcher,
    tokens: Vec<TokenId>,
    mass: f64,
    unverified: usize,
    survival: f64,
}

struct Enumeration<'a> {
    engine: &'a Engine,
    prompt: Vec<TokenId>,
    /// Tokens in the cache after the prompt.
    seen: Vec<TokenId>,
    cache: KvCache,
    mode: Mode,
}

impl Enumeration<'_> {
    /// Logits after the prompt and each of the tokens, starting with number `first`.
    fn logits(&mut self, tokens: &[TokenId], first: usize) -> Result<Vec<Vec<f32>>> {
        let all = [&self.prompt[..], tokens].concat();
        let same = self.seen.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let from = self.prompt.len() + first - 1;
        let known = (self.prompt.len() + same).min(from);
        self.cache.truncate(known);
        let rows =
            self.engine.target().forward(&all[known..], &mut self.cache, from - known..all.len() - known)?;
        self.seen = tokens.to_vec();
        Ok(rows)
    }

    /// Each legal token with its probability.
    fn masked(&self, matcher: &mut Matcher, logits: &[f32]) -> Vec<(TokenId, f64)> {
        let legal: Vec<TokenId> = {
            let mask = matcher.bitmask();
            (0..self.engine.vocabulary().len() as TokenId).filter(|t| mask.contains(*t)).collect()
        };
        let top = legal.iter().map(|t| logits[*t as usize]).fold(f32::NEG_INFINITY, f32::max);
        let weight = |t: TokenId| f64::from(logits[t as usize] - top).exp();
        let sum: f64 = legal.iter().map(|t| weight(*t)).sum();
        legal.into_iter().map(|t| (t, weight(t) / sum)).collect()
    }

    fn run(&mut self, grammar: &CompiledGrammar) -> Result<Distribution> {
        let mut all = Distribution::default();
        let matcher = grammar.matcher();
        let mut open = vec![Open { matcher, tokens: Vec::new(), mass: 1.0, unverified: 0, survival: 1.0 }];
        while let Some(mut at) = open.pop() {
            let known = at.tokens.len();
            let mut before = at.matcher.fork();
            self.jump(&mut at);
            let jumped = at.tokens.len() - known;
            if at.mass < CUT || all.forwards >= MOST {
                all.cut += at.mass;
                continue;
            }
            let ended = at.matcher.is_terminated();
            if ended && jumped == 0 {
                self.close(&mut all, &at, at.mass);
                continue;
            }
            let logits = self.logits(&at.tokens, known)?;
            all.forwards += 1;
            for (i, token) in at.tokens[known..].iter().enumerate() {
                let masked = self.masked(&mut before, &logits[i]);
                at.survival *= masked.iter().find(|m| m.0 == *token).map_or(0.0, |m| m.1);
                before.accept_token(*token)?;
            }
            at.unverified += jumped;
            if ended {
                self.close(&mut all, &at, at.mass);
                continue;
            }
            let eos = self.engine.vocabulary().eos();
            for (token, p) in self.masked(&mut at.matcher, &logits[jumped]) {
                if eos.contains(&token) {
                    self.close(&mut all, &at, at.mass * p);
                    continue;
                }
                let mut next =
                    Open { matcher: at.matcher.fork(), tokens: at.tokens.clone(), mass: at.mass * p, ..at };
                next.matcher.accept_token(token)?;
                next.tokens.push(token);
                open.push(next);
            }
        }
        Ok(all)
    }

    /// Emits the forced run, as the mode does.
    fn jump(&self, at: &mut Open) {
        let last = at.tokens.last().or(self.prompt.last()).copied();
        let run = match self.mode {
            Mode::Canonical => at.matcher.canonical_forced_tokens(last),
            Mode::Longest => at.matcher.longest_forced_tokens(),
            _ => Vec::new(),
        };
        for token in run {
            if at.matcher.accept_token(token).is_err() {
                break;
            }
            at.tokens.push(token);
        }
    }

    fn close(&self, all: &mut Distribution, at: &Open, mass: f64) {
        let text = String::from_utf8_lossy(&self.engine.vocabulary().decode(&at.tokens)).into_owned();
        *all.texts.entry(text).or_default() += mass;
        all.unverified += mass * at.unverified as f64;
        all.tokens += mass * at.tokens.len() as f64;
        all.survival += mass * at.survival;
    }
}

/// Half the sum of the differences.
fn distance(a: &Distribution, b: &Distribution) -> f64 {
    let p = |d: &Distribution, t: &String| d.texts.get(t).copied().unwrap_or(0.0);
    let texts: std::collections::BTreeSet<&String> = a.texts.keys().chain(b.texts.keys()).collect();
    texts.into_iter().map(|t| (p(a, t) - p(b, t)).abs()).sum::<f64>() / 2.0
}

fn best(d: &Distribution) -> Option<&String> {
    d.texts.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|e| e.0)
}

fn constraints() -> Result<Vec<(&'static str, Constraint, Prompt)>> {
    let schema = |name, schema: &str| -> Result<_> {
        Ok((name, Constraint::json_schema(schema)?, extract::embedded::prompt(schema, TEXT)))
    };
    let object = |members: &str, required: &str| {
        format!(
            r#"{{"type":"object","properties":{{{members}}},"required":[{required}],"additionalProperties":false}}"#
        )
    };
    Ok(vec![
        schema("one boolean", &object(r#""paid":{"type":"boolean"}"#, r#""paid""#))?,
        schema(
            "currency and boolean",
            &object(
                r#""currency":{"enum":["EUR","USD","GBP","CHF"]},"urgent":{"type":"boolean"}"#,
                r#""currency","urgent""#,
            ),
        )?,
        schema(
            "status with common beginnings",
            &object(
                r#""status":{"enum":["paid","pending","partly paid","payment due","overdue"]}"#,
                r#""status""#,
            ),
        )?,
        schema(
            "optional members",
            &object(
                r#""paid":{"type":"boolean"},"reminder":{"type":"boolean"},"urgent":{"type":"boolean"}"#,
                "",
            ),
        )?,
        schema(
            "integer from 0 to 99",
            &object(r#""days":{"type":"integer","minimum":0,"maximum":99}"#, r#""days""#),
        )?,
        schema(
            "year and month",
            &object(r#""issued":{"type":"string","pattern":"^20(2[0-9])-(0[1-9]|1[0-2])$"}"#, r#""issued""#),
        )?,
        schema(
            "unusual key",
            &object(
                r#""xqz_Kr7":{"enum":["yes","no"]},"xqz_Kr8":{"enum":["yes","no"]}"#,
                r#""xqz_Kr7","xqz_Kr8""#,
            ),
        )?,
        (
            "label without JSON",
            Constraint::choice(["invoice", "invoice reminder", "internal note", "letter"])?,
            Prompt::text(format!("{TEXT}\nKind of document: ")),
        ),
    ])
}

fn main() -> Result<()> {
    Args::parse();
    let engine = Engine::embedded()?;
    let mut table = String::from(
        "| constraint | texts | left out | mode | unverified tokens | survival | total variation | same best text |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (name, constraint, prompt) in constraints()? {
        let grammar = engine.compiler().compile(&constraint)?;
        let encoded: Vec<TokenId> = {
            let vocab = engine.vocabulary();
            let text = prompt.to_text();
            vocab.encode_template(&text)?
        };
        let of = |mode| -> Result<Distribution> {
            let mut cache = engine.target().new_cache()?;
            engine.target().forward(&encoded, &mut cache, 0..0)?;
            let prompt = encoded.clone();
            Enumeration { engine: &engine, prompt, seen: Vec::new(), cache, mode }.run(&grammar)
        };
        let plain = of(Mode::Off)?;
        for mode in [Mode::Canonical, Mode::Longest] {
            let other = of(mode)?;
            table += &format!(
                "| {name} | {} | {:.1e} | `{}` | {:.1} of {:.1} | {:.3} | {:.3} | {} |\n",
                plain.texts.len(),
                plain.cut.max(other.cut),
                mode.name(),
                other.unverified,
                other.tokens,
                other.survival,
                distance(&plain, &other),
                if best(&plain) == best(&other) { "yes" } else { "no" },
            );
        }
    }
    print!("{table}");
    tables::put("distances", &table).map_err(|e| Error::new(ErrorKind::InvalidOption, e))
}
