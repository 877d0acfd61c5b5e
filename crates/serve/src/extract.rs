//! `/v1/extract`: the records of a text or a document, as the lines of `ffwd extract`.
//!
//! Its texts run in the batch of the model with all other requests. A client that hangs up, and the time
//! limit, end it before its next forward.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, StatusCode, header};
use base64::Engine as _;
use serde_json::json;
use tokio::time::Instant;

use super::ServeOptions;
use super::api_error::{ApiError, ApiResult};
use super::app::App;
use super::fields::Fields;
use super::model::LoadedModel;
use super::options::read_sampling;
use super::running::timed_out;
use ffwd_runtime::constraint::Policy;
use ffwd_runtime::constraint::substring::SubstringOptions;
use ffwd_runtime::decode::CancelToken;
use ffwd_runtime::error::Error;
use ffwd_runtime::extract::corpus::{
    CorpusOptions, CorpusRun, GroundingOptions, LIST_TOKENS, list_of, texts_of,
};
use ffwd_runtime::extract::schema::{ExtractionSchema, SchemaOptions};
use ffwd_runtime::extract::{ChunkOptions, Extractor, PromptForm};
use ffwd_runtime::sample::SamplingParams;

/// Time between two looks at whether the client is still there.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a client asks for.
struct ExtractRequest {
    model: Option<String>,
    schema: String,
    /// The name of the document, and its bytes.
    document: (PathBuf, Vec<u8>),
    schema_options: SchemaOptions,
    open_objects: bool,
    instructions: String,
    chunks: Option<ChunkOptions>,
    merge_keys: Vec<String>,
    list: Option<String>,
    grounding: GroundingOptions,
    sampling: SamplingParams,
    max_tokens: Option<usize>,
}

fn read(fields: &mut Fields, defaults: &SamplingParams) -> ApiResult<ExtractRequest> {
    let schema = fields.needed("schema")?.get().to_owned();
    let document = match (fields.text("text")?, fields.object("document")?) {
        (Some(text), None) => (PathBuf::new(), text.into_bytes()),
        (None, Some(mut document)) => {
            let (name, data) = (document.needed_text("name")?, document.needed_text("data")?);
            document.finish()?;
            // Also in a data URL.
            let data = data.split_once(";base64,").map_or(&*data, |(_, data)| data);
            let bytes = base64::engine::general_purpose::STANDARD.decode(data);
            let wrong = |_| ApiError::field("document.data", "`document.data` must be base64");
            (PathBuf::from(name), bytes.map_err(wrong)?)
        }
        _ => return Err(ApiError::field("text", "send either `text` or `document`")),
    };
    let abstain = fields.number("abstain")?.map(f64::from);
    if abstain.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
        return Err(ApiError::field("abstain", "`abstain` must be from 0 to 1"));
    }
    let (tokens, overlap) = (fields.count("chunk_tokens")?, fields.count("chunk_overlap")?.unwrap_or(0));
    let form = fields.text("prompt_form")?.map(|name| PromptForm::by_name(&name)).transpose();
    let form = form.map_err(|error| ApiError::of(&error, "prompt_form"))?;
    let mut flag = |name| Ok::<bool, Box<ApiError>>(fields.flag(name)?.unwrap_or(false));
    let spans = if flag("whole_words")? { SubstringOptions::words() } else { SubstringOptions::default() };
    let schema_options =
        SchemaOptions { spans, verbatim: flag("verbatim")?, form, ..SchemaOptions::default() };
    let open_objects = flag("open_objects")?;
    let (confidence, alternatives) = (flag("confidence")?, flag("alternatives")?);
    let grounding = GroundingOptions { confidence, alternatives, spans: flag("spans")?, abstain };
    let merge_keys = fields.texts("merge_key")?;
    if tokens.is_none() && (overlap > 0 || !merge_keys.is_empty()) {
        return Err(ApiError::field("chunk_tokens", "`chunk_overlap` and `merge_key` need `chunk_tokens`"));
    }
    if alternatives && !confidence {
        return Err(ApiError::field("alternatives", "`alternatives` is a part of `confidence`"));
    }
    Ok(ExtractRequest {
        model: fields.text("model")?,
        schema,
        document,
        schema_options,
        open_objects,
        instructions: fields.text("instructions")?.unwrap_or_default(),
        chunks: tokens.map(|tokens| ChunkOptions { tokens, overlap }),
        merge_keys,
        list: fields.text("list")?,
        grounding,
        sampling: read_sampling(fields, defaults)?.0,
        max_tokens: fields.limit(&["max_tokens"])?,
    })
}

pub(super) async fn extract(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    /// Ends the work once nobody waits for it.
    struct Waiting(CancelToken);
    impl Drop for Waiting {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let deadline = app.deadline();
    let request = app.read(body, read).await?;
    let (size, most) = (request.schema.len(), app.options.max_constraint);
    if size > most {
        let message = format!("the schema has {size} bytes, the limit is {most}");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "too_complex", message));
    }
    let model = app.model(request.model.as_deref()).await?;
    let (waiting, options) = (Waiting(CancelToken::new()), app.options.clone());
    let cancel = waiting.0.clone();
    let work = move || lines(request, &model, &options, (&cancel, deadline));
    let lines = app.work_of(&app.extractions, deadline, work).await?;
    let mut response = Response::new(Body::from(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

/// Returns the lines about the texts of a document.
fn lines(
    request: ExtractRequest,
    model: &LoadedModel,
    options: &ServeOptions,
    (cancel, deadline): (&CancelToken, Instant),
) -> ApiResult<String> {
    let wrong = |field: &'static str| move |error: Error| ApiError::of(&error, field);
    let ExtractRequest { chunks, sampling, max_tokens, .. } = request;
    let policy = Policy { closed_objects: !request.open_objects, ..model.engine.extraction_policy() };
    let schema = SchemaOptions { policy, ..request.schema_options };
    let (schema, mut shown) = ExtractionSchema::read(&request.schema, schema).map_err(wrong("schema"))?;
    let list = list_of(&mut shown, request.list.as_deref()).map_err(wrong("list"))?;
    if list.is_some() && !request.merge_keys.is_empty() {
        return Err(ApiError::field("merge_key", "rows of a list have no keys to merge by"));
    }
    let usual = list.as_ref().map(|_| ChunkOptions { tokens: LIST_TOKENS, overlap: 0 });
    let extractor = Extractor::builder(&model.engine).instructions(request.instructions);
    let extractor = extractor.build_from(schema, &shown).map_err(wrong("schema"))?;
    let of_schema: Vec<String> = extractor.warnings().iter().map(ToString::to_string).collect();
    let (name, bytes) = request.document;
    let texts = texts_of(&name, bytes, options.document, None).map_err(wrong("document"))?;
    let corpus = CorpusOptions {
        scheduler: options.scheduler.clone(),
        chunks: chunks.or(usual),
        merge_keys: request.merge_keys,
        list,
        grounding: request.grounding,
        ..CorpusOptions::default()
    };
    let set = Box::new(move |request: ffwd_runtime::Request| {
        let request = request.sampling(sampling.clone());
        Ok(max_tokens.into_iter().fold(request, |request, most| request.max_tokens(most)))
    });
    let general = |error: Error| ApiError::general(&error);
    let scheduler = model.scheduler.clone();
    let mut run = CorpusRun::on(scheduler, model.engine.clone(), extractor, corpus, set).map_err(general)?;
    texts.documents.into_iter().for_each(|document| run.push(document));
    let mut warnings = [of_schema, texts.warnings].concat();
    let mut lines = String::new();
    loop {
        let is_ready = run.wait_for(PATIENCE);
        if cancel.is_cancelled() || Instant::now() > deadline {
            return Err(timed_out());
        }
        if !is_ready {
            continue;
        }
        let Some(done) = run.pop().map_err(general)? else {
            if !warnings.is_empty() {
                lines += &format!("{}\n", json!({"warnings": warnings}));
            }
            return Ok(lines);
        };
        let notes = done.outcome.iter().flatten().flat_map(|outcome| &outcome.notes);
        warnings.extend(notes.map(|note| (*note).to_owned()));
        if let Some(line) = done.line().map_err(general)? {
            lines += &line;
            lines.push('\n');
        }
    }
}
