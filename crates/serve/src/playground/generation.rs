//! The request that the tab "Generate" sends: prompt, constraint and options.

use crate::api_error::{ApiError, ApiResult};
use crate::chat::positive;
use crate::fields::Fields;
use crate::messages::add_text;
use crate::options::read_options;
use crate::request::{ChatInput, FormatKind, FormatRequest, GenerationRequest, PromptInput};
use ffwd_runtime::sample::SamplingParams;

/// Default limit of output tokens.
const DEFAULT_MAX_TOKENS: usize = 200;

/// Kinds of constraints, as the page names them.
const KINDS: &str = "none, json_schema, regex, grammar, labels, pattern and structural_tag";

/// Reads prompt, constraint and options; the caller reads further fields and finishes.
pub(super) fn read_generation(
    fields: &mut Fields,
    defaults: &SamplingParams,
) -> ApiResult<GenerationRequest> {
    let text = fields.needed_text("prompt")?;
    let prompt = match fields.text("as")?.as_deref() {
        None | Some("text") => PromptInput::Text(text),
        Some("chat") => {
            let mut chat = ChatInput::default();
            add_text(&mut chat, "user", text, "prompt")?;
            PromptInput::Chat(chat)
        }
        Some(other) => return Err(ApiError::unknown("as", other, "text and chat")),
    };
    let mut request = GenerationRequest::new(prompt);
    read_options(fields, &mut request, defaults)?;
    if request.choices != 1 {
        return Err(ApiError::unsupported("n", "the playground shows one output"));
    }
    if let Some(constraint) = fields.object("constraint")? {
        request.format = read_constraint(constraint)?;
    }
    let most = positive("max_tokens", fields.count("max_tokens")?)?;
    request.max_tokens = Some(most.unwrap_or(DEFAULT_MAX_TOKENS));
    Ok(request)
}

/// Reads the object `constraint`: its kind and its text.
pub(super) fn read_constraint(mut constraint: Fields) -> ApiResult<Option<FormatRequest>> {
    let (kind_path, param) = (constraint.path_of("kind"), constraint.path_of("text"));
    let kind = constraint.needed_text("kind")?;
    let text = constraint.text("text")?.unwrap_or_default();
    constraint.finish()?;
    let kind = match kind.as_str() {
        "none" => return Ok(None),
        "json_schema" => FormatKind::JsonSchema(text),
        "regex" => FormatKind::Regex(text),
        "grammar" => FormatKind::Grammar(text),
        "labels" => {
            let lines = text.lines().filter(|line| !line.is_empty());
            FormatKind::Choice(lines.map(str::to_owned).collect())
        }
        "pattern" => FormatKind::Pattern(text),
        "structural_tag" => FormatKind::StructuralTag(text),
        other => {
            let error = ApiError::field(kind_path, format!("there is no constraint {other:?}"));
            return Err(error.hint(format!("known are {KINDS}")));
        }
    };
    Ok(Some(FormatRequest { kind, param, whitespace: None, closed: false }))
}
