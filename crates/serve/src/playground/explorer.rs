//! Endpoints of the tab "Mask Explorer": one position at a time, with the probabilities before and
//! after the mask.
//!
//! Nothing is kept between requests: a body has all tokens so far, and the answer describes the
//! position after them.
//!
//! # Cost
//! For a model, one forward over the prompt and the tokens so far.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::distribution::{Distribution, nucleus, ranked};
use super::state::next_logits;
use super::token_text;
use super::toy_machine::{self, Profile, TASK, ToyMachine, WANTED_SOURCE};
use crate::api_error::{ApiError, ApiResult, json_response};
use crate::app::App;
use crate::fields::Fields;
use crate::model::LoadedModel;
use ffwd_runtime::error::Error;
use ffwd_runtime::extract::Extractor;
use ffwd_runtime::matcher::{CompiledGrammar, Matcher};
use ffwd_runtime::vocab::TokenId;

/// Largest number of tokens of a walk.
const MAX_STEPS: usize = 512;
/// Number of tokens that are listed: the most probable ones, and the most probable legal ones.
const LISTED: usize = 10;

pub(super) async fn explorer(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let text = app.body(body).await?;
    let mut fields = Fields::body(&text)?;
    let settings = Settings::read(&mut fields)?;
    let profile = fields.text("profile")?.unwrap_or_else(|| "friendly".to_owned());
    let toy = match profile.as_str() {
        "friendly" => Some(Profile::Friendly),
        "confused" => Some(Profile::Confused),
        "mismatch" => Some(Profile::Mismatch),
        "model" => None,
        other => return Err(ApiError::unknown("profile", other, "friendly, confused, mismatch and model")),
    };
    let model = fields.text("model")?;
    let schema = fields.text("schema")?;
    let document = fields.text("text")?;
    fields.finish()?;
    let value = match toy {
        Some(profile) => app.work_of(&app.page, deadline, move || toy_position(profile, &settings)).await?,
        None => {
            let schema = schema.ok_or_else(|| ApiError::missing("schema"))?;
            let document = document.ok_or_else(|| ApiError::missing("text"))?;
            if schema.len() > app.options.max_constraint {
                let message = format!("the schema has more than {} bytes", app.options.max_constraint);
                return Err(ApiError::field("schema", message));
            }
            let model = app.model(model.as_deref()).await?;
            let look = move || model_position(&model, &schema, &document, &settings, deadline);
            app.work_of(&app.page, deadline, look).await?
        }
    };
    Ok(json_response(&value))
}

/// What a request chooses besides the machine.
struct Settings {
    tokens: Vec<TokenId>,
    temperature: f64,
    top_p: f64,
}

impl Settings {
    fn read(fields: &mut Fields) -> ApiResult<Self> {
        let tokens = fields.tokens("tokens")?.unwrap_or_default();
        if tokens.len() > MAX_STEPS {
            let message = format!("`tokens` has {} tokens, the limit is {MAX_STEPS}", tokens.len());
            return Err(ApiError::field("tokens", message));
        }
        let temperature = f64::from(fields.number("temperature")?.unwrap_or(1.0));
        if !(0.01..=10.0).contains(&temperature) {
            let message = "`temperature` must be a number from 0.01 to 10";
            return Err(ApiError::field("temperature", message));
        }
        let top_p = f64::from(fields.number("top_p")?.unwrap_or(0.9));
        if !(0.0..=1.0).contains(&top_p) || top_p == 0.0 {
            return Err(ApiError::field("top_p", "`top_p` must be above 0 and at most 1"));
        }
        Ok(Settings { tokens, temperature, top_p })
    }
}

fn toy_position(profile: Profile, settings: &Settings) -> ApiResult<Value> {
    let machine = ToyMachine::get().map_err(|error| ApiError::general(&error))?;
    let mut walk = ExplorerWalk::new(&machine.grammar, &settings.tokens);
    let prefix = &settings.tokens[..walk.accepted];
    let mut value = walk.value(|id| toy_machine::word(id).to_owned());
    value["task"] = TASK.into();
    value["warnings"] = machine.grammar.warnings().iter().map(ToString::to_string).collect();
    if walk.matcher.is_finished() {
        let text: String = prefix.iter().map(|&id| toy_machine::word(id)).collect();
        let record: Value = serde_json::from_str(text.trim_end_matches("<eos>")).unwrap_or_default();
        value["as_asked"] = (record["source"] == WANTED_SOURCE).into();
        value["wanted"] = format!("\"source\": \"{WANTED_SOURCE}\"").into();
    } else if value["broken"].is_null() {
        let logits = machine.logits(profile, prefix);
        walk.describe(&mut value, &logits, settings, |id| toy_machine::word(id).to_owned());
        for token in value["tokens"].as_array_mut().into_iter().flatten() {
            let id = token["id"].as_u64().unwrap_or_default() as TokenId;
            token["leads_nowhere"] = machine.leads_nowhere(prefix, id).into();
        }
    }
    Ok(value)
}

fn model_position(
    model: &LoadedModel,
    schema: &str,
    document: &str,
    settings: &Settings,
    deadline: Instant,
) -> ApiResult<Value> {
    let engine = &model.engine;
    let vocab = engine.vocabulary();
    let in_schema = |error: Error| ApiError::of(&error, "schema");
    if let Some(unknown) = settings.tokens.iter().find(|&&token| token as usize >= vocab.len()) {
        let message = format!("there is no token {unknown}; the vocabulary has {}", vocab.len());
        return Err(ApiError::field("tokens", message));
    }
    let extractor = Extractor::new(engine, schema).map_err(in_schema)?;
    let prompt = extractor.prompt(document).map_err(|error| ApiError::of(&error, "text"))?;
    let key = format!("playground explorer\n{schema}");
    let grammar = match model.grammars.get(&key) {
        Some(known) => known,
        None => {
            let constraint = extractor.constraint(Some(document)).map_err(in_schema)?;
            let grammar = engine.compiler().compile(&constraint).map_err(in_schema)?;
            if extractor.shared_constraint().is_some() {
                model.grammars.put(key, grammar.clone());
            }
            grammar
        }
    };
    let mut walk = ExplorerWalk::new(&grammar, &settings.tokens);
    let shown = |id: TokenId| token_text(vocab, id);
    let mut value = walk.value(shown);
    value["warnings"] = grammar.warnings().iter().map(ToString::to_string).collect();
    if !walk.matcher.is_finished() && value["broken"].is_null() {
        let mut tokens = prompt.encode(vocab).map_err(|error| ApiError::general(&error))?;
        tokens.extend_from_slice(&settings.tokens);
        let logits = next_logits(model, tokens, deadline)?;
        walk.describe(&mut value, &logits, settings, shown);
    }
    Ok(value)
}

/// A walk through a grammar, up to the first token that is not legal.
struct ExplorerWalk {
    matcher: Matcher,
    tokens: Vec<TokenId>,
    /// Number of tokens before the first one that is not legal.
    accepted: usize,
}

impl ExplorerWalk {
    fn new(grammar: &CompiledGrammar, tokens: &[TokenId]) -> Self {
        let mut matcher = grammar.matcher();
        let accepted = tokens.iter().take_while(|&&id| matcher.accept_token(id).is_ok()).count();
        ExplorerWalk { matcher, tokens: tokens.to_vec(), accepted }
    }

    /// Describes the position without its probabilities.
    fn value(&self, shown: impl Fn(TokenId) -> String) -> Value {
        let there = self.matcher.explain_bytes(b"");
        let broken = self.tokens.get(self.accepted).map(|&id| {
            let found = self.matcher.explain(id);
            let expected: Vec<String> = found.examples.iter().map(|&id| shown(id)).collect();
            json!({"at": self.accepted, "token": shown(id), "reason": found.reason(), "fits": found.fits,
                "expected": expected, "may_end": found.may_end})
        });
        let list: Vec<Value> = self.tokens.iter().map(|&id| json!({"id": id, "text": shown(id)})).collect();
        json!({
            "prefix": list,
            "state": there.state.unwrap_or_else(|| format!("#{}", there.path)),
            "finished": self.matcher.is_finished(),
            "may_end": self.matcher.is_accepting(),
            "broken": broken,
        })
    }

    /// Adds the probabilities of the position.
    fn describe(
        &mut self,
        value: &mut Value,
        logits: &[f32],
        settings: &Settings,
        shown: impl Fn(TokenId) -> String,
    ) {
        let mut row = vec![0u32; self.matcher.vocabulary().bitmask_words()];
        self.matcher.fill_bitmask(&mut row);
        let found = Distribution::of(logits, &row, settings.temperature);
        let (raw, legal) = (ranked(&found.raw), ranked(&found.masked));
        let before = nucleus(&raw, &found.raw, settings.top_p);
        let after = nucleus(&legal, &found.masked, settings.top_p);
        let left: Vec<TokenId> = before.iter().copied().filter(|&id| found.legal[id as usize]).collect();
        let mut listed: Vec<TokenId> =
            raw.iter().take(LISTED).chain(legal.iter().take(LISTED)).copied().collect();
        if logits.len() <= 2 * LISTED {
            listed = (0..logits.len() as TokenId).collect();
        }
        listed.sort_by(|a, b| found.raw[*b as usize].total_cmp(&found.raw[*a as usize]).then(a.cmp(b)));
        listed.dedup();
        let token = |&id: &TokenId| {
            let at = id as usize;
            json!({"id": id, "text": shown(id), "logit": logits[at], "raw": found.raw[at],
                "masked": found.masked[at], "legal": found.legal[at],
                "top_p_before": before.contains(&id), "top_p_after": after.contains(&id)})
        };
        let best = raw.first().copied();
        let why = best.filter(|&id| !found.legal[id as usize]).map(|id| {
            let why = self.matcher.explain(id);
            let expected: Vec<String> = why.examples.iter().map(|&id| shown(id)).collect();
            json!({"reason": why.reason(), "fits": why.fits, "expected": expected})
        });
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        value["vocabulary"] = logits.len().into();
        value["mask"] = format!("{:016x}", hasher.finish()).into();
        value["legal"] = found.legal_count().into();
        value["rejected"] = found.rejected().into();
        value["tokens"] = listed.iter().map(token).collect();
        value["best"] = json!({"raw": best, "legal": legal.first(), "why": why});
        value["top_p"] = json!({"share": settings.top_p, "before": {"tokens": before.len(), "legal": left.len(),
            "best": left.first()}, "after": {"tokens": after.len()}});
    }
}
