//! The type of a document, by the probabilities of the labels of a taxonomy.

use ffwd::constraint::token_machine::{LabelTrie, Labels, Lead};
use ffwd::decode::LabelOptions;
use ffwd::{ChatOptions, Engine, Message, Result};

/// The wording of `ffwd classify`, which the embedded models know.
const SYSTEM: &str = "You are a text classifier. Answer with the label only.";

/// The type of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Invoice,
    Order,
    Complaint,
    Newsletter,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Invoice, Kind::Order, Kind::Complaint, Kind::Newsletter];

    /// Its label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Invoice => "invoice",
            Kind::Order => "purchase_order",
            Kind::Complaint => "complaint",
            Kind::Newsletter => "newsletter",
        }
    }

    /// The schema of its records. Values that a document may lack allow null.
    pub(crate) fn schema(self) -> Option<&'static str> {
        match self {
            Kind::Invoice => Some(include_str!("invoice.schema.json")),
            Kind::Order => Some(include_str!("order.schema.json")),
            Kind::Complaint => Some(include_str!("complaint.schema.json")),
            Kind::Newsletter => None,
        }
    }
}

/// The labels in the tokens of a model.
pub(crate) struct Sorter {
    trie: LabelTrie,
}

impl Sorter {
    pub(crate) fn new(engine: &Engine) -> Result<Sorter> {
        let labels = Labels::new(Kind::ALL.map(Kind::label));
        // The answer in a chat begins without a space.
        Ok(Sorter { trie: engine.label_trie(&labels.lead(Lead::Nothing))? })
    }

    /// Returns the most probable type with its probability among all types.
    pub(crate) fn kind(&self, engine: &Engine, text: &str) -> Result<(Kind, f64)> {
        let labels = Kind::ALL.map(Kind::label).join(", ");
        let user =
            format!("Classify the text into one of these labels: {labels}.\n\nText: {}", text.trim_end());
        let messages = [Message::system(SYSTEM), Message::user(user)];
        let prompt = engine.chat_prompt(&messages, &ChatOptions::default())?;
        let found = engine.label_probabilities(&prompt, &self.trie, &LabelOptions::default())?;
        let best = found.best().expect("there are labels");
        let kind = Kind::ALL.into_iter().find(|kind| kind.label() == best.label);
        Ok((kind.expect("the labels are those of the types"), best.probability))
    }
}
