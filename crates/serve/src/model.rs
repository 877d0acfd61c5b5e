//! A served model: its engine and scheduler, loaded when it is first asked for.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use tokio::sync::OnceCell;

use super::api_error::{ApiError, ApiResult};
use super::grammars::GrammarCache;
use super::reply::THINK;
use ffwd_runtime::constraint::Policy;
use ffwd_runtime::constraint::tools::{ToolChoice, ToolStyle, Tools};
use ffwd_runtime::decode::{Engine, Scheduler, SchedulerOptions};
use ffwd_runtime::error::Result;
use ffwd_runtime::model::KvCache;
use ffwd_runtime::vocab::TokenId;

/// Loads an engine for outputs that contain these markers.
pub type LoadEngine = Box<dyn Fn(Vec<String>) -> Result<Engine> + Send + Sync>;

/// A model that a server offers.
pub struct ModelSource {
    /// The name by which clients ask for it.
    pub name: String,
    /// Loads it.
    pub load: LoadEngine,
    /// The style of its tool calls; `None` takes that of its chat template or special tokens.
    pub tool_style: Option<ToolStyle>,
}

/// A model, loaded or not.
pub(super) struct ServedModel {
    pub source: Arc<ModelSource>,
    options: SchedulerOptions,
    loaded: OnceCell<Arc<LoadedModel>>,
}

/// A model that runs.
pub(super) struct LoadedModel {
    pub name: String,
    pub engine: Arc<Engine>,
    pub scheduler: Arc<Scheduler>,
    pub style: ToolStyle,
    pub grammars: GrammarCache,
    /// The position that the playground showed last: its tokens, with their keys and values. A user
    /// takes them out, and none are left after a panic.
    pub shown: Mutex<Option<(Vec<TokenId>, KvCache)>>,
}

impl ServedModel {
    pub(crate) fn new(source: ModelSource, options: SchedulerOptions) -> Self {
        ServedModel { source: Arc::new(source), options, loaded: OnceCell::new() }
    }

    /// Returns the model if it is loaded.
    pub(crate) fn loaded(&self) -> Option<&Arc<LoadedModel>> {
        self.loaded.get()
    }

    /// Returns the model, after loading it if necessary.
    ///
    /// # Errors
    /// 503 if it cannot be loaded; the next request tries again.
    pub(crate) async fn get(&self) -> ApiResult<Arc<LoadedModel>> {
        let load = || async {
            let (source, options) = (self.source.clone(), self.options.clone());
            let loading = tokio::task::spawn_blocking(move || LoadedModel::load(&source, options));
            let failed = |message: String| {
                tracing::error!(model = self.source.name, "cannot be loaded: {message}");
                let message = format!("the model `{}` cannot be loaded: {message}", self.source.name);
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "model_unavailable", message)
            };
            match loading.await {
                Ok(Ok(model)) => Ok(Arc::new(model)),
                Ok(Err(error)) => Err(failed(error.to_string())),
                Err(_) => Err(failed("the program failed inside".to_owned())),
            }
        };
        self.loaded.get_or_try_init(load).await.cloned()
    }
}

impl LoadedModel {
    fn load(source: &ModelSource, options: SchedulerOptions) -> Result<Self> {
        let engine = Arc::new((source.load)(markers(source.tool_style))?);
        let style = source.tool_style.unwrap_or_else(|| engine.tool_style());
        let scheduler = Arc::new(Scheduler::new(engine.clone(), options)?);
        Ok(LoadedModel {
            name: source.name.clone(),
            engine,
            scheduler,
            style,
            grammars: GrammarCache::default(),
            shown: Mutex::default(),
        })
    }

    /// Returns the largest number of tokens of prompt and output.
    pub(crate) fn context(&self) -> usize {
        self.engine.target().config().context
    }
}

/// Returns the texts that replies contain as markers: the ends of thinking, and the tags of calls in
/// this style, or in all that need no other reader of the whole reply.
fn markers(style: Option<ToolStyle>) -> Vec<String> {
    let styles = match style {
        Some(style) => vec![style],
        None => ToolStyle::ALL.into_iter().filter(|style| *style != ToolStyle::Harmony).collect(),
    };
    let marks = |style: ToolStyle| -> Result<Vec<String>> {
        let tools = Tools::parse(r#"[{"name": "f"}]"#)?;
        let constraint = tools.constraint(style, &ToolChoice::default(), Policy::default())?;
        Ok(constraint.ir().marks.clone())
    };
    let mut all: Vec<String> = THINK.map(str::to_owned).into();
    for style in styles {
        all.extend(marks(style).unwrap_or_default());
    }
    all
}
