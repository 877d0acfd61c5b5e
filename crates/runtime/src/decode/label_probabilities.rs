//! Probabilities of labels: products of masked probabilities along the paths of a label trie.
//!
//! At a node the model's distribution covers the tokens of the children, and the end token if a
//! label ends there. A node without a choice needs no forward; its token goes through the model
//! together with the next ones that need one. The trie is visited depth first. A forward takes all
//! tokens down to the last choice on its path and gives the distributions of all nodes it passes.
//! The prompt is read once, and the KV cache is truncated for the next branch.
//!
//! For large taxonomies a best-first search finds the most probable labels. A path is never more
//! probable than its prefix, so labels are found in order of probability, and the unvisited part is
//! reported as the rest.
//!
//! # Alternatives considered
//!
//! Running siblings in one batch was rejected: each would need a copy of the prompt's keys and
//! values.

use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::best_first::SearchEntry;
use super::engine::Engine;
use super::prefix_reader::PrefixReader;
use super::prompt::Prompt;
use crate::constraint::token_machine::{LabelNode, LabelTrie, Labels};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::TokenId;

/// Largest number of tokens that one forward takes ahead of the node it is for.
const MAX_AHEAD: usize = 64;

/// The labels to return; by default all of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LabelOptions {
    /// Number of labels to return, the most probable ones.
    pub top: Option<usize>,
    /// Smallest probability of a returned label.
    pub min_probability: f64,
    /// Largest number of forwards; the labels found within it are the most probable.
    pub max_forwards: Option<usize>,
}

/// A label and its probability.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelProbability {
    /// The label.
    pub label: String,
    /// Its index in the trie.
    pub index: usize,
    /// Its probability under masked decoding at temperature 1.
    pub probability: f64,
    /// The natural logarithm of the probability; finite even where the probability underflows.
    pub log_probability: f64,
}

/// The labels of a taxonomy after a prompt, the most probable first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelProbabilities {
    /// The requested labels; equally probable ones in the order of the taxonomy.
    pub labels: Vec<LabelProbability>,
    /// The probability of all other labels together: 0 if there are none.
    pub rest: f64,
    /// Share of the model's probability after the prompt that is on first tokens of labels: near 0
    /// if the model prefers another text.
    pub legal_mass: f64,
    /// Forwards of the model, the one over the prompt included.
    pub forwards: usize,
    #[serde(skip)]
    path_separator: Option<String>,
}

impl LabelProbabilities {
    /// Returns the most probable label; `None` only if [`LabelOptions`] excluded all.
    pub fn best(&self) -> Option<&LabelProbability> {
        self.labels.first()
    }

    /// Returns the probability of a label, if it was found.
    pub fn get(&self, label: &str) -> Option<f64> {
        self.labels.iter().find(|l| l.label == label).map(|l| l.probability)
    }

    /// Returns the probability of a subtree of a hierarchy: of the label `path` itself and of all
    /// found labels below it.
    pub fn below(&self, path: &str) -> f64 {
        let separator = self.path_separator.as_deref();
        let lies_below = |label: &str| {
            label.strip_prefix(path).is_some_and(|rest| {
                rest.is_empty() || separator.is_some_and(|separator| rest.starts_with(separator))
            })
        };
        self.labels.iter().filter(|l| lies_below(&l.label)).map(|l| l.probability).sum()
    }
}

impl Engine {
    /// Returns the trie of the labels in the tokens of this engine's vocabulary.
    ///
    /// # Errors
    /// Fails like [`Labels::trie`].
    pub fn label_trie(&self, labels: &Labels) -> Result<LabelTrie> {
        labels.trie(self.vocabulary())
    }

    /// Returns the probability of each label after a prompt. It is exactly the probability of the
    /// label in a generation with [`Constraint::labels`](crate::Constraint::labels) at temperature
    /// 1, without penalties and bias.
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// use ffwd::constraint::token_machine::Labels;
    /// use ffwd::decode::LabelOptions;
    /// use ffwd::{Engine, Prompt};
    ///
    /// # fn main() -> ffwd::Result<()> {
    /// let engine = Engine::embedded()?;
    /// let trie = engine.label_trie(&Labels::new(["invoice", "letter", "order"]))?;
    /// let prompt = Prompt::text("Please pay 200 EUR within 30 days.\n\nKind:");
    /// let found = engine.label_probabilities(&prompt, &trie, &LabelOptions::default())?;
    /// let sum: f64 = found.labels.iter().map(|l| l.probability).sum();
    /// assert!((sum - 1.0).abs() < 1e-12);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the prompt is empty or does not fit, the trie belongs to another vocabulary, the
    /// labels allow several per output, an option is out of range, or the model fails.
    pub fn label_probabilities(
        &self,
        prompt: &Prompt,
        trie: &LabelTrie,
        options: &LabelOptions,
    ) -> Result<LabelProbabilities> {
        let wrong = |message: &str| Error::new(ErrorKind::InvalidOption, message);
        if trie.has_several() {
            return Err(wrong("probabilities are those of single labels, but these may be several")
                .hint("make the labels without a separator"));
        }
        if options.top == Some(0) || options.max_forwards == Some(0) {
            return Err(wrong("0 labels or 0 forwards were asked for"));
        }
        if !(0.0..=1.0).contains(&options.min_probability) {
            return Err(wrong("the least probability is not between 0 and 1"));
        }
        trie.prove_for(self.vocabulary())?;
        let prompt = prompt.encode(self.vocabulary())?;
        if prompt.is_empty() {
            return Err(wrong("the prompt is empty"));
        }
        let (reader, shared) = self.reader(&prompt)?;
        let mut walk = LabelWalk {
            reader,
            trie,
            ends: self.vocabulary().eos(),
            prompt,
            choices: FxHashMap::default(),
            legal_mass: 1.0,
            forwards: 0,
        };
        let all = options.top.is_none_or(|n| n >= trie.len())
            && options.min_probability == 0.0
            && options.max_forwards.is_none();
        let found = if all { walk.all()? } else { walk.best(options)? };
        if walk.forwards == 0 {
            // A single label leaves no choice, but its probability mass is still reported.
            let rows = walk.forward(&[], 0)?;
            walk.look_at_beginning(&rows[0])?;
        }
        let cache = &walk.reader.cache;
        self.keep(&walk.prompt, shared, cache.len(), |n| (cache.prefix(n), None));
        Ok(walk.report(found, all))
    }
}

/// Log-probabilities at a node.
struct Choice {
    children: Vec<(LabelNode, f64)>,
    /// Log-probability that the label at the node ends.
    end: Option<f64>,
}

/// A walk through a trie with a model.
struct LabelWalk<'a> {
    reader: PrefixReader<'a>,
    trie: &'a LabelTrie,
    ends: &'a [TokenId],
    prompt: Vec<TokenId>,
    /// Distributions that an earlier forward computed and that are still unused.
    choices: FxHashMap<LabelNode, Choice>,
    legal_mass: f64,
    forwards: usize,
}

impl LabelWalk<'_> {
    /// Follows the path from `node` while it has a single continuation: to a choice, or to the end
    /// of a label.
    fn forced(&self, mut node: LabelNode) -> LabelNode {
        while let ([(_, child)], None) = (self.trie.children(node), self.trie.label_at(node)) {
            node = *child;
        }
        node
    }

    /// Returns all labels, depth first.
    fn all(&mut self) -> Result<Vec<(usize, f64)>> {
        let mut found = Vec::with_capacity(self.trie.len());
        let mut todo = vec![(self.trie.root(), 0.0)];
        while let Some((node, log)) = todo.pop() {
            let node = self.forced(node);
            let (label, leaf) = (self.trie.label_at(node), self.trie.children(node).is_empty());
            if let Some(label) = label.filter(|_| leaf) {
                found.push((label, log));
                continue;
            }
            let choice = self.choice(node, MAX_AHEAD)?;
            found.extend(label.zip(choice.end).map(|(label, end)| (label, log + end)));
            // The first child comes next, because its tokens may be in the cache.
            todo.extend(choice.children.iter().rev().map(|&(child, p)| (child, log + p)));
        }
        Ok(found)
    }

    /// Returns the most probable labels, best first.
    fn best(&mut self, options: &LabelOptions) -> Result<Vec<(usize, f64)>> {
        let mut found = Vec::new();
        let open = |log, key| SearchEntry { log, key, value: () };
        let mut todo = BinaryHeap::from([open(0.0, SearchTarget::Node(self.trie.root()))]);
        let least = options.min_probability.ln();
        while let Some(SearchEntry { log, key, .. }) = todo.pop() {
            if log < least {
                break;
            }
            let node = match key {
                SearchTarget::Node(node) => self.forced(node),
                SearchTarget::Label(label) => {
                    found.push((label, log));
                    if options.top.is_some_and(|top| found.len() >= top) {
                        break;
                    }
                    continue;
                }
            };
            let (label, leaf) = (self.trie.label_at(node), self.trie.children(node).is_empty());
            if let Some(label) = label.filter(|_| leaf) {
                todo.push(open(log, SearchTarget::Label(label)));
                continue;
            }
            if options.max_forwards.is_some_and(|most| self.forwards >= most) {
                break;
            }
            let choice = self.choice(node, 0)?;
            if let Some((label, end)) = label.zip(choice.end) {
                todo.push(open(log + end, SearchTarget::Label(label)));
            }
            let children = choice.children.iter();
            todo.extend(children.map(|&(child, p)| open(log + p, SearchTarget::Node(child))));
        }
        Ok(found)
    }

    /// Returns the distribution at a node, from a forward unless an earlier one computed it.
    fn choice(&mut self, node: LabelNode, ahead: usize) -> Result<Choice> {
        if let Some(known) = self.choices.remove(&node) {
            return Ok(known);
        }
        // Nodes with choices on the first branch below this one, each with the number of tokens
        // before it.
        let mut tokens = self.trie.path(node);
        let mut wanted = vec![(node, tokens.len())];
        let most = tokens.len() + ahead;
        let mut at = node;
        while let Some(&(token, child)) =
            self.trie.children(at).iter().find(|e| self.trie.labels_below(e.1) > 1)
            && tokens.len() < most
        {
            tokens.push(token);
            at = child;
            if self.forced(at) == at {
                wanted.push((at, tokens.len()));
            }
        }
        tokens.truncate(wanted.last().map_or(0, |w| w.1));
        // The first forward also gives the probability mass on first tokens of labels.
        let first = if self.forwards == 0 { 0 } else { wanted[0].1 };
        let rows = self.forward(&tokens, first)?;
        if first == 0 {
            self.look_at_beginning(&rows[0])?;
        }
        for (node, len) in wanted {
            let choice = self.distribution(node, &rows[len - first])?;
            self.choices.insert(node, choice);
        }
        self.choices.remove(&node).ok_or_else(|| Error::new(ErrorKind::Model, "a forward without logits"))
    }

    /// Runs the model over `tokens` after the prompt; returns the logits after the first `from` of
    /// them and after each later one.
    fn forward(&mut self, tokens: &[TokenId], from: usize) -> Result<Vec<Vec<f32>>> {
        self.forwards += 1;
        self.reader.logits_from(&[&self.prompt, tokens].concat(), self.prompt.len() + from)
    }

    /// Computes the share of the model's probability on first tokens of labels.
    fn look_at_beginning(&mut self, logits: &[f32]) -> Result<()> {
        let children = self.trie.children(self.trie.root()).iter();
        let legal: Vec<f64> = children.map(|e| logit(logits, e.0)).collect::<Result<_>>()?;
        let all = log_sum(logits.iter().map(|&l| f64::from(l)));
        self.legal_mass = (log_sum(legal.into_iter()) - all).exp();
        Ok(())
    }

    /// Returns the masked distribution at a node.
    fn distribution(&self, node: LabelNode, logits: &[f32]) -> Result<Choice> {
        let children = self.trie.children(node);
        let ends = if self.trie.label_at(node).is_some() { self.ends } else { &[] };
        let legal = children.iter().map(|e| e.0).chain(ends.iter().copied());
        let legal: Vec<f64> = legal.map(|token| logit(logits, token)).collect::<Result<_>>()?;
        let total = log_sum(legal.iter().copied());
        if total == f64::NEG_INFINITY {
            return Err(Error::new(ErrorKind::Model, "the model gives no label any probability"));
        }
        let (to_children, to_ends) = legal.split_at(children.len());
        let end = (!to_ends.is_empty()).then(|| log_sum(to_ends.iter().copied()) - total);
        let children = children.iter().zip(to_children).map(|(e, l)| (e.1, l - total)).collect();
        Ok(Choice { children, end })
    }

    fn report(self, mut found: Vec<(usize, f64)>, all: bool) -> LabelProbabilities {
        found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let label = |&(index, log): &(usize, f64)| LabelProbability {
            label: self.trie.labels()[index].clone(),
            index,
            probability: log.exp(),
            log_probability: log,
        };
        let labels: Vec<LabelProbability> = found.iter().map(label).collect();
        let rest = 1.0 - labels.iter().map(|l| l.probability).sum::<f64>();
        LabelProbabilities {
            labels,
            rest: if all { 0.0 } else { rest.max(0.0) },
            legal_mass: self.legal_mass,
            forwards: self.forwards,
            path_separator: self.trie.path_separator().map(str::to_owned),
        }
    }
}

/// A token's logit, which must be a number or negative infinity.
fn logit(logits: &[f32], token: TokenId) -> Result<f64> {
    match logits.get(token as usize) {
        Some(&logit) if !logit.is_nan() && logit < f32::INFINITY => Ok(f64::from(logit)),
        other => {
            let message = format!("the logit of token {token} is {other:?}");
            Err(Error::new(ErrorKind::Model, message))
        }
    }
}

/// The logarithm of a sum of exponentials.
fn log_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let best = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if best == f64::NEG_INFINITY {
        return best;
    }
    best + logs.map(|l| (l - best).exp()).sum::<f64>().ln()
}

/// What is open in the best-first search.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SearchTarget {
    Node(LabelNode),
    Label(usize),
}
