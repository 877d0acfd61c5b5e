//! Driving the matcher from an inference engine of one's own: masks, drafts, rollback, forced runs.
//!
//! cargo run --release --no-default-features --example custom_engine
//!
//! `logits` stands for the engine. What ffwd needs of it is one row of numbers per position, and that
//! several positions can be had in one call, which is what makes a draft cheaper than its tokens.

use ffwd::{Compiler, Constraint, Matcher, Result, TokenId, Vocabulary};

/// The tokenizer of the models that ship with the crate; its end token has id 2.
const TOKENIZER: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/extract-5m/tokenizer.json"));
const SCHEMA: &str = include_str!("data/invoice.schema.json");
/// What the made-up model would like to write. The constraint keeps it to the record.
const WISH: &str = r#"Sure: {"invoice_number":"INV-7","vendor":"Glacier","customer":"Mikkel","issue_date":"2024-03-14","total":1840.50,"currency":"EUR"} Anything else?"#;
/// Tokens drafted at a time.
const DRAFT: usize = 4;

/// A language model that is none: it likes what continues the wish best after the text so far.
struct Engine {
    vocab: Vocabulary,
    calls: usize,
}

impl Engine {
    /// The logits after each of `tokens[from..]`, in one call.
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

    /// What follows, in the wish, on the longest end of the text that stands in it.
    fn rest_of_wish(&self, text: &[u8]) -> &'static [u8] {
        let wish = WISH.as_bytes();
        let tails = (0..text.len()).map(|i| &text[i..]);
        let found = tails.filter_map(|t| wish.windows(t.len()).position(|w| w == t).map(|at| at + t.len()));
        &wish[found.into_iter().next().unwrap_or(0)..]
    }
}

/// The token with the highest logit among those whose bit is set.
fn argmax(logits: &[f32], mask: &[u32]) -> Option<TokenId> {
    let legal = (0..logits.len()).filter(|t| mask[t / 32] >> (t % 32) & 1 == 1);
    legal.max_by(|&a, &b| logits[a].total_cmp(&logits[b])).map(|t| t as TokenId)
}

/// One call for one token; `None` at the end.
fn next(engine: &mut Engine, matcher: &mut Matcher, tokens: &[TokenId]) -> Result<Option<TokenId>> {
    let rows = engine.logits(tokens, tokens.len());
    let mut mask = vec![0u32; engine.vocab.bitmask_words()];
    matcher.fill_bitmask(&mut mask);
    let Some(token) = argmax(&rows[0], &mask) else { return Ok(None) };
    matcher.accept_token(token)?;
    Ok((!engine.vocab.eos().contains(&token)).then_some(token))
}

/// One call per token: the definition of what the output is.
fn plain(engine: &mut Engine, mut matcher: Matcher) -> Result<Vec<TokenId>> {
    let mut tokens = Vec::new();
    loop {
        match next(engine, &mut matcher, &tokens)? {
            Some(token) => tokens.push(token),
            None => return Ok(tokens),
        }
    }
}

/// Drafts, one call for each of them: the same output in fewer calls.
fn drafted(engine: &mut Engine, mut matcher: Matcher) -> Result<Vec<TokenId>> {
    let words = engine.vocab.bitmask_words();
    let mut tokens = Vec::new();
    let (mut offered, mut accepted) = (0, 0);
    loop {
        let draft = draft(engine, &mut matcher, tokens.last().copied());
        // The masks along the draft; a real engine would run at the same time.
        let mut masks = vec![vec![0u32; words]; draft.len() + 1];
        for (at, mask) in masks.iter_mut().enumerate() {
            matcher.fill_bitmask(mask);
            if let Some(&token) = draft.get(at) {
                matcher.accept_token(token)?;
            }
        }
        // One call gives the rows after the text and after each drafted token.
        let known = tokens.len();
        tokens.extend_from_slice(&draft);
        let rows = engine.logits(&tokens, known);
        let choices: Vec<Option<TokenId>> = rows.iter().zip(&masks).map(|(r, m)| argmax(r, m)).collect();
        // Keep what the engine would have written itself, take the rest back, go on with its choice.
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

/// The forced run if there is one; otherwise what a cheap drafter guesses, as far as it is legal.
fn draft(engine: &Engine, matcher: &mut Matcher, last: Option<TokenId>) -> Vec<TokenId> {
    let mut draft = matcher.forced_prefix(last, DRAFT).tokens;
    if draft.is_empty() {
        // This drafter always says the same: a real one would be a small model or a look-up.
        draft = engine.vocab.encode("Glacier\",\"customer").unwrap_or_default();
    }
    draft.truncate(DRAFT);
    let legal = matcher.validate_tokens(&draft);
    draft.truncate(legal);
    draft
}

/// Forced runs are taken without asking the engine: fewest calls, but where the engine would have split
/// the run differently, its own continuation may differ.
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
