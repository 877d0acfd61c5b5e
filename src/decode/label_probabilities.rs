//! How probable each label is: the products of masked probabilities along the paths of a trie.
//!
//! At a node the model's distribution is that over what may come there: the tokens of the children, and the
//! end token if a label ends. Where nothing is to be chosen no forward is needed; the tokens go through the
//! model with the next ones that are. Going through the whole trie depth first, a forward takes all the
//! tokens down to the last choice on its way and brings the distributions of all nodes it passes; the prompt
//! is read once, and the cache cut back for the next branch. For large taxonomies the most probable labels
//! are found best first: a path is never more probable than its beginning, so what comes out first is most
//! probable, and what is never looked at is reported as a rest. Running siblings in one batch was rejected:
//! each would need a copy of the prompt's keys and values.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::engine::Engine;
use super::request::Prompt;
use crate::constraint::token_machine::{LabelNode, LabelTrie, Labels};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{KvCache, Model};
use crate::vocab::TokenId;

/// Most tokens that one forward takes ahead of the node it is for.
const MAX_AHEAD: usize = 64;

/// Which labels are wanted; by default all of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LabelOptions {
    /// Only so many, the most probable ones.
    pub top: Option<usize>,
    /// Only labels of at least this probability.
    pub min_probability: f64,
    /// No more forwards than this; what is found until then is most probable.
    pub max_forwards: Option<usize>,
}

/// A label and how probable it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelProbability {
    /// The label.
    pub label: String,
    /// Its number in the trie.
    pub index: usize,
    /// Its probability under masked decoding at temperature 1.
    pub probability: f64,
    /// The natural logarithm of that, also where the probability itself is too small for a number.
    pub log_probability: f64,
}

/// The labels of a taxonomy behind a prompt, the most probable first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelProbabilities {
    /// The labels that were asked for; equally probable ones in the order of the taxonomy.
    pub labels: Vec<LabelProbability>,
    /// The probability of all labels that are not among them: 0 if all are.
    pub rest: f64,
    /// Share of the model's probability behind the prompt that is on beginnings of labels: near 0 if it
    /// wanted to write something else.
    pub legal_mass: f64,
    /// Forwards of the model, that over the prompt included.
    pub forwards: usize,
    #[serde(skip)]
    path_separator: Option<String>,
}

impl LabelProbabilities {
    /// The most probable label; none only if [`LabelOptions`] left none.
    pub fn best(&self) -> Option<&LabelProbability> {
        self.labels.first()
    }

    /// The probability of a label, if it is among those found.
    pub fn get(&self, label: &str) -> Option<f64> {
        self.labels.iter().find(|l| l.label == label).map(|l| l.probability)
    }

    /// The probability of a place in a hierarchy: of the label itself and all found below it.
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
    /// Labels in the tokens of this engine's vocabulary.
    ///
    /// # Errors
    /// As [`Labels::trie`].
    pub fn label_trie(&self, labels: &Labels) -> Result<LabelTrie> {
        labels.trie(self.vocabulary())
    }

    /// How probable each label is behind a prompt: exactly what generating with
    /// [`Constraint::labels`](crate::Constraint::labels) at temperature 1 gives, without penalties and bias.
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
    /// If the prompt is empty or does not fit, the trie is of another vocabulary, the labels are for
    /// outputs with several, an option is out of range, or the model fails.
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
        let (known, shared) = self.cached_prefix(&prompt);
        let mut walk = Walk {
            model: self.target(),
            trie,
            ends: self.vocabulary().eos(),
            cache: known.map_or_else(|| self.target().new_cache(), |known| Ok(known.0))?,
            prompt,
            path: Vec::new(),
            choices: FxHashMap::default(),
            legal_mass: 1.0,
            forwards: 0,
        };
        let all = options.top.is_none_or(|n| n >= trie.len())
            && options.min_probability == 0.0
            && options.max_forwards.is_none();
        let found = if all { walk.all()? } else { walk.best(options)? };
        if walk.forwards == 0 {
            // A single label leaves no choice, but what the model thinks of it is worth knowing.
            let rows = walk.forward(&[], 0)?;
            walk.look_at_beginning(&rows[0])?;
        }
        self.keep(&walk.prompt, shared, walk.cache.len(), |n| (walk.cache.prefix(n), None));
        Ok(walk.report(found, all))
    }
}

/// The logarithms of the probabilities at a node.
struct Choice {
    children: Vec<(LabelNode, f64)>,
    /// Of the label that ends there.
    end: Option<f64>,
}

/// A walk through a trie with a model.
struct Walk<'a> {
    model: &'a Model,
    trie: &'a LabelTrie,
    ends: &'a [TokenId],
    cache: KvCache,
    prompt: Vec<TokenId>,
    /// The tokens of labels in the cache, behind the prompt.
    path: Vec<TokenId>,
    /// Distributions that a forward brought along and that are not used yet.
    choices: FxHashMap<LabelNode, Choice>,
    legal_mass: f64,
    forwards: usize,
}

impl Walk<'_> {
    /// Goes on as long as there is one way only: to a choice, or to the end of a label.
    fn forced(&self, mut node: LabelNode) -> LabelNode {
        while let ([(_, child)], None) = (self.trie.children(node), self.trie.label_at(node)) {
            node = *child;
        }
        node
    }

    /// All labels, depth first.
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
            // The first child is next, for its tokens may be in the cache already.
            todo.extend(choice.children.iter().rev().map(|&(child, p)| (child, log + p)));
        }
        Ok(found)
    }

    /// The most probable labels, best first.
    fn best(&mut self, options: &LabelOptions) -> Result<Vec<(usize, f64)>> {
        let mut found = Vec::new();
        let mut todo = BinaryHeap::from([Open { log: 0.0, what: What::Node(self.trie.root()) }]);
        let least = options.min_probability.ln();
        while let Some(Open { log, what }) = todo.pop() {
            if log < least {
                break;
            }
            let node = match what {
                What::Node(node) => self.forced(node),
                What::Label(label) => {
                    found.push((label, log));
                    if options.top.is_some_and(|top| found.len() >= top) {
                        break;
                    }
                    continue;
                }
            };
            let (label, leaf) = (self.trie.label_at(node), self.trie.children(node).is_empty());
            if let Some(label) = label.filter(|_| leaf) {
                todo.push(Open { log, what: What::Label(label) });
                continue;
            }
            if options.max_forwards.is_some_and(|most| self.forwards >= most) {
                break;
            }
            let choice = self.choice(node, 0)?;
            if let Some((label, end)) = label.zip(choice.end) {
                todo.push(Open { log: log + end, what: What::Label(label) });
            }
            let open = |&(child, p): &(LabelNode, f64)| Open { log: log + p, what: What::Node(child) };
            todo.extend(choice.children.iter().map(open));
        }
        Ok(found)
    }

    /// The distribution at a node, by a forward unless an earlier one brought it along.
    fn choice(&mut self, node: LabelNode, ahead: usize) -> Result<Choice> {
        if let Some(known) = self.choices.remove(&node) {
            return Ok(known);
        }
        // Nodes with choices from here down the first branch that has some, and how many tokens are in
        // front of each.
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
        // The first forward also says what the model thinks of beginning a label at all.
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

    /// Brings the cache behind `tokens`; the logits behind the first `from` of them and each one after.
    fn forward(&mut self, tokens: &[TokenId], from: usize) -> Result<Vec<Vec<f32>>> {
        let shared = tokens.iter().zip(&self.path).take_while(|(a, b)| a == b).count();
        // The token whose logits are wanted must go through the model, though it may be in the cache. The
        // last one of the prompt stands for the root.
        let wanted_from = self.prompt.len() + from - 1;
        let keep = self.cache.len().min(self.prompt.len() + shared).min(wanted_from);
        self.cache.truncate(keep);
        let input: Vec<TokenId> = self.prompt.iter().chain(tokens).skip(keep).copied().collect();
        let rows = wanted_from - keep..input.len();
        let result = self.model.forward(&input, &mut self.cache, rows);
        self.path.clear();
        self.path.extend_from_slice(&tokens[..(self.cache.len().saturating_sub(self.prompt.len()))]);
        self.forwards += 1;
        result
    }

    /// How much of the model's probability is on beginnings of labels.
    fn look_at_beginning(&mut self, logits: &[f32]) -> Result<()> {
        let children = self.trie.children(self.trie.root()).iter();
        let legal: Vec<f64> = children.map(|e| logit(logits, e.0)).collect::<Result<_>>()?;
        let all = log_sum(logits.iter().map(|&l| f64::from(l)));
        self.legal_mass = (log_sum(legal.into_iter()) - all).exp();
        Ok(())
    }

    /// The masked distribution at a node.
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

/// Something that may still be the most probable.
struct Open {
    log: f64,
    what: What,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Node(LabelNode),
    Label(usize),
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        // Of equals the first: a total order makes the search the same each time.
        self.log.total_cmp(&other.log).then_with(|| other.what.cmp(&self.what))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}
