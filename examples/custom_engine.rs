//! Integration of the matcher into another inference engine: masks, drafts, rollback, forced runs.
//!
//! cargo run --release --no-default-features --example custom_engine
//!
//! `Engine::logits` takes the place of a real engine. The loops need one row of logits for each
//! position. A draft saves time because one call returns the rows of several positions.

use ffwd::{Compiler, Constraint, Matcher, Result, TokenId, Vocabulary};

/// Tokenizer of the embedded models; its end token has id 2.
const TOKENIZER: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/runtime/assets/extract-5m/tokenizer.json"));
const SCHEMA: &str = include_str!("data/invoice.schema.json");
/// Text that the imitated model prefers. The constraint limits it to the record.
const WISH: &str = r#"Sure: {"invoice_number":"INV-7","vendor":"Glacier","customer":"Mikkel","issue_date":"2024-03-14","total":1840.50,"currency":"EUR"} Anything else?"#;
/// Maximum number of tokens in a draft.
const DRAFT: usize = 4;

/// Imitation of a language model: it prefers the tokens that continue the wish after the text so
/// far.
struct Engine {
    vocab: Vocabulary,
    calls: usize,
}

impl Engine {
    /// Returns the logits after `tokens[..from]` and after each further token, in one call.
    fn logits(&mut self, tokens: &[TokenId], from: usize) -> Vec<Vec<f32>> {
        self.calls += 1;
        (from..=tokens.len()).map(|end| self.row(&tokens[..end])).collect()
    }

    fn row(&self, tokens: &[TokenId]) -> Vec<f32> {
        let text = self.vocab.decode(tokens);
        let rest = self.rest_of_wish(&text);
        let score = |id: TokenId| match self.vocab.token_bytes(id) {
            [] => {
                if rest.is_empty() {
                    5.0
                } else {
                    -5.0
                }
            }
            bytes if rest.starts_with(bytes) => 1.0 + bytes.len() as f32,
            bytes => -(bytes.len() as f32),
        };
        (0..self.vocab.logits_size() as TokenId).map(score).collect()
    }

    /// Finds the longest suffix of the text in the wish and returns the rest of the wish after it.
    fn rest_of_wish(&self, text: &[u8]) -> &'static [u8] {
        let wish = WISH.as_bytes();
        let tails = (0..text.len()).map(|i| &text[i..]);
        let found = tails.filter_map(|t| wish.windows(t.len()).position(|w| w == t).map(|at| at + t.len()));
        &wish[found.into_iter().next().unwrap_or(0)..]
    }
}

/// Returns the token with the highest logit among those whose bit is set.
fn argmax(logits: &[f32], mask: &[u32]) -> Option<TokenId> {
    let legal = (0..logits.len()).filter(|t| mask[t / 32] >> (t % 32) & 1 == 1);
    legal.max_by(|&a, &b| logits[a].total_cmp(&logits[b])).map(|t| t as TokenId)
}

/// Generates one token with one call; returns `None` at the end.
fn next(engine: &mut Engine, matcher: &mut Matcher, tokens: &[TokenId]) -> Result<Option<TokenId>> {
    let rows = engine.logits(tokens, tokens.len());
    let mut mask = vec![0u32; engine.vocab.bitmask_words()];
    matcher.fill_bitmask(&mut mask);
    let Some(token) = argmax(&rows[0], &mask) else { return Ok(None) };
    matcher.accept_token(token)?;
    Ok((!engine.vocab.eos().contains(&token)).then_some(token))
}

/// Plain masked decoding with one call per token. It defines the output.
fn plain(engine: &mut Engine, mut matcher: Matcher) -> Result<Vec<TokenId>> {
    let mut tokens = Vec::new();
    loop {
        match next(engine, &mut matcher, &tokens)? {
            Some(token) => tokens.push(token),
            None => return Ok(tokens),
        }
    }
}

/// Speculative decoding with one call per draft: the same output in fewer calls.
fn drafted(engine: &mut Engine, mut matcher: Matcher) -> Result<Vec<TokenId>> {
    let words = engine.vocab.bitmask_words();
    let mut tokens = Vec::new();
    let (mut offered, mut accepted) = (0, 0);
    loop {
        let draft = draft(engine, &mut matcher, tokens.last().copied());
        // The masks along the draft. A real engine computes the logits at the same time.
        let mut masks = vec![vec![0u32; words]; draft.len() + 1];
        for (at, mask) in masks.iter_mut().enumerate() {
            matcher.fill_bitmask(mask);
            if let Some(&token) = draft.get(at) {
                matcher.accept_token(token)?;
            }
        }
        // One call returns the rows after the text and after each drafted token.
        let known = tokens.len();
        tokens.extend_from_slice(&draft);
        let rows = engine.logits(&tokens, known);
        let choices: Vec<Option<TokenId>> = rows.iter().zip(&masks).map(|(r, m)| argmax(r, m)).collect();
        // Keep the tokens that the engine chooses itself, roll back the others, add its next
        // choice.
        let kept = draft.iter().zip(&choices).take_while(|(d, c)| Some(**d) == **c).count();
        matcher.rollback(draft.len() - kept);
        tokens.truncate(known + kept);
        (offered, accepted) = (offered + draft.len(), accepted + kept);
        let Some(next) = choices[kept] else { return Ok(tokens) };
        matcher.accept_token(next)?;
        if engine.vocab.eos().contains(&next) {
            println!("  {accepted} of {offered} drafted tokens accepted, the others rolled back");
            return Ok(tokens);
        }
        tokens.push(next);
    }
}

/// Returns the forced run, or else the legal part of a cheap guess.
fn draft(engine: &Engine, matcher: &mut Matcher, last: Option<TokenId>) -> Vec<TokenId> {
    let mut draft = matcher.forced_prefix(last, DRAFT).tokens;
    if draft.is_empty() {
        // This guess is always the same. A real drafter is a small model or a lookup in the prompt.
        draft = engine.vocab.encode("Glacier\",\"customer").unwrap_or_default();
    }
    draft.truncate(DRAFT);
    let legal = matcher.validate_tokens(&draft);
    draft.truncate(legal);
    draft
}

/// Takes forced runs unverified. This needs the fewest calls. The output may differ from that of
/// the engine, if the engine prefers other tokens for the same run.
fn jumping(engine: &mut Engine, mut matcher: Matcher) -> Result<Vec<TokenId>> {
    let mut tokens: Vec<TokenId> = Vec::new();
    loop {
        for token in matcher.canonical_forced_tokens(tokens.last().copied()) {
            matcher.accept_token(token)?;
            tokens.push(token);
        }
        if matcher.is_terminated() {
            return Ok(tokens);
        }
        match next(engine, &mut matcher, &tokens)? {
            Some(token) => tokens.push(token),
            None => return Ok(tokens),
        }
    }
}

fn main() -> Result<()> {
    let vocab = Vocabulary::from_bytes(TOKENIZER)?.with_eos(vec![2]);
    let grammar = Compiler::new(vocab.clone()).compile(&Constraint::json_schema(SCHEMA)?)?;
    let mut engine = Engine { vocab: vocab.clone(), calls: 0 };

    type Loop = fn(&mut Engine, Matcher) -> Result<Vec<TokenId>>;
    let loops: [(&str, Loop); 3] =
        [("one call a token", plain), ("drafts of four", drafted), ("jumping forced runs", jumping)];
    let mut outputs = Vec::new();
    for (name, run) in loops {
        engine.calls = 0;
        println!("{name}");
        let tokens = run(&mut engine, grammar.matcher())?;
        println!("  {}", String::from_utf8_lossy(&vocab.decode(&tokens)));
        println!("  {} tokens in {} calls", tokens.len(), engine.calls);
        outputs.push(tokens);
    }
    assert_eq!(outputs[0], outputs[1], "verified drafts change nothing");
    Ok(())
}
