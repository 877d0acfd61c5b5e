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

use std::collections::VecDeque;
use std::sync::Arc;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;

use super::{Extraction, Extractor, finished, typed};
use crate::decode::{Engine, Handle, Request, Scheduler, SchedulerOptions};
use crate::error::Result;

/// Sets further options of each request.
type Options = Box<dyn Fn(Request) -> Request + Send>;

/// The records of many texts, in their order; see [`Extractor::extract_many`]. Dropping it cancels
/// the texts in work.
pub struct Records<I, R> {
    texts: I,
    extractor: Extractor,
    options: Options,
    /// Declared before the scheduler, so that its requests are cancelled first.
    in_work: VecDeque<Result<Handle>>,
    scheduler: Scheduler,
    /// Largest number of texts in work.
    ahead: usize,
    read: fn(Extraction) -> Result<R>,
}

impl<I, R> Records<I, R> {
    /// Sets further options of each request, such as the token limit.
    pub fn with(mut self, options: impl Fn(Request) -> Request + Send + 'static) -> Self {
        self.options = Box::new(options);
        self
    }
}

impl<S: AsRef<str>, I: Iterator<Item = S>, R> Iterator for Records<I, R> {
    type Item = Result<R>;

    fn next(&mut self) -> Option<Result<R>> {
        while self.in_work.len() < self.ahead
            && let Some(text) = self.texts.next()
        {
            let request = self.extractor.request(text).map(&self.options);
            self.in_work.push_back(request.and_then(|request| self.scheduler.submit(request)));
        }
        let output = self.in_work.pop_front()?.and_then(Handle::wait);
        Some(output.and_then(finished).and_then(self.read))
    }
}

impl<I, R> std::fmt::Debug for Records<I, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("in_work", &self.in_work.len()).finish_non_exhaustive()
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
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::with_batch(batch))?;
    Ok(Records {
        texts: texts.into_iter(),
        extractor,
        options: Box::new(|request| request),
        in_work: VecDeque::new(),
        scheduler,
        ahead: batch.saturating_mul(2),
        read,
    })
}
