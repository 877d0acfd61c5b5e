//! Records of many texts: an iterator of texts in, an iterator of records out.
//!
//! Texts run together in a batch. The records come in the order of the texts, and each failure is an
//! item of its own.
//!
//! # Cost
//!
//! Texts are taken only while fewer than two batches of them are in work, so memory does not grow
//! with their number. A record that is slow holds back those after it until it is complete.
//!
//! # Alternatives considered
//!
//! Records in the order in which they become complete were rejected: callers would need the index
//! with each of them to know its text.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;

use super::corpus::{CorpusOptions, CorpusRun, Document};
use super::{Extraction, Extractor, finished, typed};
use crate::decode::{Engine, Request, SchedulerOptions};
use crate::error::{Error, ErrorKind, Result};

/// The records of many texts, in their order; see [`Extractor::extract_many`]. Dropping it cancels
/// the texts in work.
pub struct Records<I, R> {
    texts: I,
    run: CorpusRun,
    read: fn(Extraction) -> Result<R>,
}

impl<I, R> Records<I, R> {
    /// Sets further options of each request, such as the token limit.
    pub fn with(mut self, options: impl Fn(Request) -> Request + Send + 'static) -> Self {
        self.run.set(Box::new(move |request| Ok(options(request))));
        self
    }

    /// Waits for the next text that is done.
    fn take(&mut self) -> Result<Option<Extraction>> {
        let Some(done) = self.run.pop()? else { return Ok(None) };
        let outcome = done.outcome.transpose()?.and_then(|outcome| outcome.output);
        let output = outcome.ok_or_else(|| Error::new(ErrorKind::Cancelled, "the text has no output"))?;
        finished(output).map(Some)
    }
}

impl<S: AsRef<str>, I: Iterator<Item = S>, R> Iterator for Records<I, R> {
    type Item = Result<R>;

    fn next(&mut self) -> Option<Result<R>> {
        while !self.run.is_full()
            && let Some(text) = self.texts.next()
        {
            let text = Ok(text.as_ref().to_owned());
            self.run.push(Document { source: PathBuf::new(), id: None, text, places: None });
        }
        self.take().transpose().map(|extraction| extraction.and_then(self.read))
    }
}

impl<I, R> std::fmt::Debug for Records<I, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Extractor {
    /// Extracts the records of many texts, `batch` of them together. Texts are taken from the
    /// iterator only when records are taken from the result.
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// use std::sync::Arc;
    ///
    /// use ffwd::Engine;
    /// use ffwd::extract::Extractor;
    ///
    /// # fn main() -> ffwd::Result<()> {
    /// let engine = Arc::new(Engine::embedded()?);
    /// let schema = r#"{"properties": {"total": {"type": "number"}}, "required": ["total"]}"#;
    /// let extractor = Extractor::new(&engine, schema)?;
    /// let texts = ["Total: 12.50 EUR", "To pay: 7 EUR", "Total due 3.20"];
    /// for extraction in extractor.extract_many(&engine, texts, 2)?.with(|request| request.max_tokens(64)) {
    ///     assert!(extraction?.record["total"].is_number());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if `batch` is 0 or a thread cannot be started. The errors of a text are those of
    /// [`request`](Self::request), [`Engine::generate`] and [`finished`].
    pub fn extract_many<T: IntoIterator<Item: AsRef<str>>>(
        &self,
        engine: &Arc<Engine>,
        texts: T,
        batch: usize,
    ) -> Result<Records<T::IntoIter, Extraction>> {
        records(self.clone(), engine, texts, batch, Ok)
    }
}

impl Engine {
    /// Extracts typed records of many texts, `batch` of them together, in the order of the texts.
    /// The schema is that of `T`. Texts are taken from the iterator only when records are taken from
    /// the result.
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// use std::sync::Arc;
    ///
    /// use ffwd::Engine;
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Invoice {
    ///     total: f64,
    /// }
    ///
    /// # fn main() -> ffwd::Result<()> {
    /// let engine = Arc::new(Engine::embedded()?);
    /// let texts = ["Total: 12.50 EUR", "To pay: 7 EUR"];
    /// let mut sum = 0.0;
    /// for invoice in engine.extract_many::<Invoice, _>(texts, 8)? {
    ///     sum += invoice?.total;
    /// }
    /// assert!(sum.is_finite());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the schema does not compile, `batch` is 0 or a thread cannot be started. The errors
    /// of a text are those of [`extract`](Self::extract).
    pub fn extract_many<R, T>(self: &Arc<Self>, texts: T, batch: usize) -> Result<Records<T::IntoIter, R>>
    where
        R: DeserializeOwned + JsonSchema,
        T: IntoIterator<Item: AsRef<str>>,
    {
        let extractor = Extractor::new(self, schema_for!(R).to_value().to_string())?;
        records(extractor, self, texts, batch, |extraction| typed(&extraction.text))
    }
}

fn records<T: IntoIterator, R>(
    extractor: Extractor,
    engine: &Arc<Engine>,
    texts: T,
    batch: usize,
    read: fn(Extraction) -> Result<R>,
) -> Result<Records<T::IntoIter, R>> {
    let options =
        CorpusOptions { scheduler: SchedulerOptions::with_batch(batch), ..CorpusOptions::default() };
    let run = CorpusRun::new(engine.clone(), extractor, options, Box::new(Ok))?;
    Ok(Records { texts: texts.into_iter(), run, read })
}
