//! The trie of labels over tokens, and the proof that its paths are exactly the labels.
//!
//! Nodes are in depth-first order, so the labels below a node are a range. The number of labels
//! left below a node is then a subtraction, which forbidding repetitions needs. Labels after a
//! separator have a trie of their own, whose paths begin with the separator's tokens, because
//! tokenizers may merge the two.
//!
//! # Cost
//! Building costs a few encodings for each label, a sort, and the proof. The proof enumerates every
//! path from the root to an end, decodes it, and compares it with the labels.

use std::sync::Arc;

use super::encode_after::{encode_after, encode_alone};
use super::labels::{Labels, Lead, Several, invalid};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::{TokenId, Vocabulary};
use crate::warning::{Warning, WarningKind};

/// A node of a [`LabelTrie`].
pub type LabelNode = u32;

/// Maximum number of nodes of a trie.
const MAX_NODES: usize = 1 << 25;
/// No label.
const NO_LABEL: u32 = u32::MAX;
/// Maximum number of labels that a warning names.
const MAX_NAMED: usize = 3;

/// Labels in the tokens of a vocabulary. Cheap to clone.
#[derive(Clone)]
pub struct LabelTrie(Arc<LabelTrieInner>);

struct LabelTrieInner {
    vocab: Vocabulary,
    labels: Vec<String>,
    lead: &'static str,
    path_separator: Option<String>,
    first: LabelItems,
    /// Separators and the labels after them.
    next: Option<LabelItems>,
    several: Option<Several>,
    warnings: Vec<Warning>,
}

/// The trie for one position of an output: of labels at the beginning, or of separators with
/// labels.
pub(crate) struct LabelItems {
    nodes: Vec<LabelTrieNode>,
    /// Tokens and target nodes, sorted by token for each node.
    edges: Vec<(TokenId, LabelNode)>,
    /// The labels in the order of their paths.
    order: Vec<u32>,
    /// By label: its index in `order`.
    rank: Vec<u32>,
}

struct LabelTrieNode {
    parent: LabelNode,
    token: TokenId,
    edges: (u32, u32),
    /// The label that ends here, or `NO_LABEL`.
    label: u32,
    /// The labels that end here or below, as a range of `order`.
    ranks: (u32, u32),
    /// Number of tokens from here to the nearest end.
    nearest: u32,
}

impl LabelItems {
    /// Builds the trie of the labels' tokens, by number of the label.
    fn new(spellings: &[Vec<TokenId>]) -> Result<Self> {
        let mut order: Vec<u32> = (0..spellings.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| spellings[a as usize].cmp(&spellings[b as usize]));
        let mut rank = vec![0; order.len()];
        for (at, &label) in order.iter().enumerate() {
            rank[label as usize] = at as u32;
        }
        let node = |parent, token, at| LabelTrieNode {
            parent,
            token,
            edges: (0, 0),
            label: NO_LABEL,
            ranks: (at, at),
            nearest: NO_LABEL,
        };
        let mut nodes = vec![node(0, 0, 0)];
        let mut path: Vec<LabelNode> = vec![0];
        let mut before: &[TokenId] = &[];
        for (at, &label) in order.iter().enumerate() {
            let tokens = &spellings[label as usize];
            let shared = tokens.iter().zip(before).take_while(|(a, b)| a == b).count();
            path.truncate(shared + 1);
            for &token in &tokens[shared..] {
                if nodes.len() >= MAX_NODES {
                    let message = format!("the labels make a trie of more than {MAX_NODES} nodes");
                    return Err(Error::new(ErrorKind::TooComplex, message));
                }
                path.push(nodes.len() as LabelNode);
                nodes.push(node(path[path.len() - 2], token, at as u32));
            }
            // The last node of a path is its end; different labels have different texts, so
            // different paths.
            nodes[path[tokens.len()] as usize].label = label;
            for &on in &path {
                nodes[on as usize].ranks.1 = at as u32 + 1;
            }
            before = tokens;
        }
        let edges = connect(&mut nodes);
        Ok(LabelItems { nodes, edges, order, rank })
    }

    pub(crate) fn children(&self, node: LabelNode) -> &[(TokenId, LabelNode)] {
        let (from, to) = self.nodes[node as usize].edges;
        &self.edges[from as usize..to as usize]
    }

    pub(crate) fn child(&self, node: LabelNode, token: TokenId) -> Option<LabelNode> {
        let children = self.children(node);
        children.binary_search_by_key(&token, |e| e.0).ok().map(|at| children[at].1)
    }

    pub(crate) fn label(&self, node: LabelNode) -> Option<u32> {
        Some(self.nodes[node as usize].label).filter(|&l| l != NO_LABEL)
    }

    /// Returns the labels that end at a node or below, as a range of ranks.
    pub(crate) fn ranks(&self, node: LabelNode) -> std::ops::Range<u32> {
        let (from, to) = self.nodes[node as usize].ranks;
        from..to
    }

    pub(crate) fn rank(&self, label: u32) -> u32 {
        self.rank[label as usize]
    }

    /// Returns the number of tokens from a node to the nearest end.
    pub(crate) fn nearest(&self, node: LabelNode) -> u32 {
        self.nodes[node as usize].nearest
    }

    /// Returns the tokens from the root to a node.
    pub(crate) fn path(&self, mut node: LabelNode) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        while node != 0 {
            tokens.push(self.nodes[node as usize].token);
            node = self.nodes[node as usize].parent;
        }
        tokens.reverse();
        tokens
    }

    pub(crate) fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<LabelTrieNode>() + self.edges.len() * 8 + self.order.len() * 8
    }

    /// Enumerates the paths to all ends, decodes them, and compares them with the labels.
    fn prove(&self, vocab: &Vocabulary, front: &str, labels: &[String]) -> Result<()> {
        let broken = |what: String| Err(Error::new(ErrorKind::Tokenizer, what));
        let mut met = vec![false; labels.len()];
        // A node, and the length of the text before its token.
        let mut todo: Vec<(LabelNode, usize)> = vec![(0, 0)];
        let mut text: Vec<u8> = Vec::new();
        while let Some((node, len)) = todo.pop() {
            text.truncate(len);
            if node != 0 {
                text.extend_from_slice(vocab.token_bytes(self.nodes[node as usize].token));
            }
            if let Some(label) = self.label(node) {
                let expected = labels.get(label as usize).map(|l| [front, l].concat());
                if expected.as_ref().is_none_or(|e| e.as_bytes() != text) {
                    let shown = String::from_utf8_lossy(&text);
                    return broken(format!(
                        "a path of the trie spells {shown:?}, not the label {expected:?}"
                    ));
                }
                if std::mem::replace(&mut met[label as usize], true) {
                    return broken(format!("two paths of the trie spell {expected:?}"));
                }
            } else if self.children(node).is_empty() {
                return broken(format!("a path of the trie ends without a label: {:?}", self.path(node)));
            }
            todo.extend(self.children(node).iter().rev().map(|e| (e.1, text.len())));
        }
        match met.iter().position(|met| !met) {
            Some(label) => broken(format!("no path of the trie spells the label {:?}", labels[label])),
            None => Ok(()),
        }
    }
}

/// Builds the edges of nodes in depth-first order, and their distances to the nearest end.
fn connect(nodes: &mut [LabelTrieNode]) -> Vec<(TokenId, LabelNode)> {
    let mut counts = vec![0u32; nodes.len()];
    for at in (1..nodes.len()).rev() {
        let parent = nodes[at].parent as usize;
        counts[parent] += 1;
        let here = &mut nodes[at];
        if here.label != NO_LABEL {
            here.nearest = 0;
        }
        // Every node is on the path to an end, so this is finite; children are visited before their
        // parents.
        let nearest = here.nearest + 1;
        nodes[parent].nearest = nodes[parent].nearest.min(nearest);
    }
    let mut from = 0;
    for (node, count) in nodes.iter_mut().zip(&counts) {
        node.edges = (from, from);
        from += count;
    }
    let mut edges = vec![(0, 0); nodes.len() - 1];
    for at in 1..nodes.len() {
        let (token, parent) = (nodes[at].token, nodes[at].parent as usize);
        edges[nodes[parent].edges.1 as usize] = (token, at as LabelNode);
        nodes[parent].edges.1 += 1;
    }
    edges
}

impl LabelTrie {
    pub(super) fn new(labels: &Labels, vocab: &Vocabulary) -> Result<Self> {
        let texts = labels.resolved()?;
        let (lead, first) = spell_first(vocab, &texts, labels.lead)?;
        let items = LabelItems::new(&first)?;
        items.prove(vocab, lead, &texts)?;
        let mut inner = LabelTrieInner {
            vocab: vocab.clone(),
            labels: texts,
            lead,
            path_separator: labels.path.as_ref().map(|path| path.0.clone()),
            first: items,
            next: None,
            several: labels.several.clone(),
            warnings: Vec::new(),
        };
        if let Some(several) = inner.several.clone() {
            let (next, warnings) = spell_next(vocab, &inner.labels, lead, &first, &several.separator)?;
            let next = LabelItems::new(&next)?;
            next.prove(vocab, &several.separator, &inner.labels)?;
            for items in [&inner.first, &next] {
                check_unambiguous_separator(vocab, items, &next, &inner.labels, &several.separator)?;
            }
            inner.next = Some(next);
            inner.warnings = warnings;
        }
        can_end(&inner)?;
        Ok(LabelTrie(Arc::new(inner)))
    }

    /// The labels in the order in which they were given, followed by added ancestors.
    pub fn labels(&self) -> &[String] {
        &self.0.labels
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.0.labels.len()
    }

    /// Returns true if there are no labels, which is never the case.
    pub fn is_empty(&self) -> bool {
        self.0.labels.is_empty()
    }

    /// The text before the first label: a space, or nothing.
    pub fn lead(&self) -> &str {
        self.0.lead
    }

    /// The separator of the parts of a path, if labels are paths.
    pub fn path_separator(&self) -> Option<&str> {
        self.0.path_separator.as_deref()
    }

    /// Returns true if an output may have several labels.
    pub fn has_several(&self) -> bool {
        self.0.several.is_some()
    }

    /// Warnings about labels that the tokenizer might encode differently next to a separator.
    pub fn warnings(&self) -> &[Warning] {
        &self.0.warnings
    }

    /// The vocabulary of the trie.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocab
    }

    /// The node before the first label.
    pub fn root(&self) -> LabelNode {
        0
    }

    /// Number of nodes of the trie of labels at the beginning of an output.
    pub fn node_count(&self) -> usize {
        self.0.first.nodes.len()
    }

    /// Returns the tokens that continue from a node, with their target nodes, sorted by token.
    ///
    /// # Panics
    /// Panics if the node is not one of this trie.
    pub fn children(&self, node: LabelNode) -> &[(TokenId, LabelNode)] {
        self.0.first.children(node)
    }

    /// Returns the node that a token leads to from a node.
    ///
    /// # Panics
    /// Panics if the node is not one of this trie.
    pub fn advance(&self, node: LabelNode, token: TokenId) -> Option<LabelNode> {
        self.0.first.child(node, token)
    }

    /// Returns the number of the label that ends at a node. Longer labels may continue from there.
    ///
    /// # Panics
    /// Panics if the node is not one of this trie.
    pub fn label_at(&self, node: LabelNode) -> Option<usize> {
        self.0.first.label(node).map(|l| l as usize)
    }

    /// Returns the tokens of a label at the beginning of an output, including the text before it.
    ///
    /// # Panics
    /// Panics if there is no label of this number.
    pub fn tokens(&self, label: usize) -> Vec<TokenId> {
        let wanted = self.0.first.rank(label as u32);
        let mut node = 0;
        while self.0.first.label(node) != Some(label as u32) {
            let below = |e: &&(TokenId, LabelNode)| self.0.first.ranks(e.1).contains(&wanted);
            match self.children(node).iter().find(below) {
                Some(&(_, child)) => node = child,
                None => break,
            }
        }
        self.0.first.path(node)
    }

    /// Returns the labels of a complete output, in its order; `None` if the output is incomplete or
    /// does not consist of labels. Does not check the number of labels, nor whether they repeat.
    pub fn parse(&self, tokens: &[TokenId]) -> Option<Vec<usize>> {
        let mut labels = Vec::new();
        let (mut items, mut node) = (&self.0.first, 0);
        for &token in tokens {
            if let Some(child) = items.child(node, token) {
                node = child;
                continue;
            }
            labels.push(items.label(node)? as usize);
            items = self.0.next.as_ref()?;
            node = items.child(0, token)?;
        }
        labels.push(items.label(node)? as usize);
        Some(labels)
    }

    /// Number of labels that end at a node or below.
    ///
    /// # Panics
    /// Panics if the node is not one of this trie.
    pub fn labels_below(&self, node: LabelNode) -> usize {
        self.0.first.ranks(node).len()
    }

    /// Returns the tokens from the root to a node.
    ///
    /// # Panics
    /// Panics if the node is not one of this trie.
    pub fn path(&self, node: LabelNode) -> Vec<TokenId> {
        self.0.first.path(node)
    }

    /// Checks that this vocabulary encodes all labels as the same tokens: repeats the proof.
    pub fn prove_for(&self, vocab: &Vocabulary) -> Result<()> {
        if self.0.vocab.is_same(vocab) {
            return Ok(());
        }
        self.0.first.prove(vocab, self.0.lead, &self.0.labels).map_err(|e| {
            let message = format!("the labels were made for another vocabulary: {}", e.message());
            Error::new(ErrorKind::Tokenizer, message)
                .hint("make the trie with the vocabulary of the engine (`Engine::label_trie`)")
        })
    }

    pub(crate) fn first(&self) -> &LabelItems {
        &self.0.first
    }

    pub(crate) fn next(&self) -> Option<&LabelItems> {
        self.0.next.as_ref()
    }

    /// Minimum and maximum number of labels, and whether they may repeat.
    pub(crate) fn counts(&self) -> (u32, Option<u32>, bool) {
        self.0.several.as_ref().map_or((1, Some(1), false), |s| (s.least, s.most, s.repeats))
    }

    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.0.labels.iter().map(|l| l.len() + size_of::<String>()).sum();
        self.0.first.bytes() + self.0.next.as_ref().map_or(0, LabelItems::bytes) + texts
    }
}

impl std::fmt::Debug for LabelTrie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabelTrie").field("labels", &self.len()).field("nodes", &self.node_count()).finish()
    }
}

/// Returns the text before labels, and the tokens of each label after a prompt.
fn spell_first(
    vocab: &Vocabulary,
    labels: &[String],
    lead: Lead,
) -> Result<(&'static str, Vec<Vec<TokenId>>)> {
    let spell = |lead: &str, label: &String| encode_alone(vocab, &[lead, label].concat());
    let lead = match lead {
        Lead::Space => " ",
        Lead::Nothing => "",
        // The first label decides for all of them: all labels have the same text before them.
        Lead::Auto if labels.iter().take(1).any(|l| matches!(spell(" ", l), Ok(Some(_)))) => " ",
        Lead::Auto => "",
    };
    let mut spellings = Vec::with_capacity(labels.len());
    for (at, label) in labels.iter().enumerate() {
        let Some(tokens) = spell(lead, label)? else {
            let found = vocab.decode(&vocab.encode(&[lead, label].concat())?);
            let message = format!(
                "the tokenizer does not give the label {label:?} (number {}) back, but {:?}",
                at + 1,
                String::from_utf8_lossy(&found)
            );
            return Err(Error::new(ErrorKind::Tokenizer, message).hint(
                "the label has characters that the tokenizer does not know or changes; spell it otherwise",
            ));
        };
        spellings.push(tokens);
    }
    Ok((lead, spellings))
}

/// Returns the tokens of the separator and each label after another label, and warnings about
/// labels that the tokenizer would encode differently.
fn spell_next(
    vocab: &Vocabulary,
    labels: &[String],
    lead: &str,
    first: &[Vec<TokenId>],
    separator: &str,
) -> Result<(Vec<Vec<TokenId>>, Vec<Warning>)> {
    let mut spellings = Vec::with_capacity(labels.len());
    let mut merged = Vec::new();
    let probe = [lead, &labels[0]].concat();
    for (label, tokens) in labels.iter().zip(first) {
        let text = [separator, label].concat();
        // The tokens after the probe as the tokenizer encodes them, or else those of the text
        // alone.
        let (spelling, fits) = match encode_after(vocab, &probe, &text)? {
            Some((_, spelling)) => (Some(spelling), true),
            None => (encode_alone(vocab, &text)?, false),
        };
        let Some(spelling) = spelling else {
            let message = format!("the tokenizer does not give the separator and the label {text:?} back");
            return Err(Error::new(ErrorKind::Tokenizer, message).hint("choose another separator"));
        };
        spellings.push(spelling);
        // The tokens of the label before a separator must not change either.
        let whole = encode_after(vocab, &[lead, label].concat(), &[separator, &labels[0]].concat())?;
        if !fits || !whole.is_some_and(|(front, _)| front.ends_with(tokens)) {
            merged.push(label.as_str());
        }
    }
    let mut warnings = Vec::new();
    if !merged.is_empty() {
        let named: Vec<String> = merged.iter().take(MAX_NAMED).map(|l| format!("{l:?}")).collect();
        let message = format!(
            "beside the separator {separator:?} the tokenizer itself would split {} of {} labels otherwise \
             (such as {}); outputs are spelled right, but not in the tokens the model saw most",
            merged.len(),
            labels.len(),
            named.join(", ")
        );
        warnings.push(Warning::new(WarningKind::LabelTokens, message));
    }
    Ok((spellings, warnings))
}

/// Checks that the token after each label determines whether the label continues or a separator
/// follows.
fn check_unambiguous_separator(
    vocab: &Vocabulary,
    items: &LabelItems,
    next: &LabelItems,
    labels: &[String],
    separator: &str,
) -> Result<()> {
    for node in 0..items.nodes.len() as LabelNode {
        let Some(label) = items.label(node) else { continue };
        let Some(&(token, child)) = items.children(node).iter().find(|e| next.child(0, e.0).is_some()) else {
            continue;
        };
        let longer = items.order[items.ranks(child).start as usize];
        let message = format!(
            "behind the label {:?} the token {:?} may begin the separator {separator:?} or go on to {:?}",
            labels[label as usize],
            String::from_utf8_lossy(vocab.token_bytes(token)),
            labels[longer as usize]
        );
        return Err(invalid(message).hint("choose another separator"));
    }
    Ok(())
}

/// Checks that the end of an output is unambiguous if the vocabulary has no end token.
fn can_end(inner: &LabelTrieInner) -> Result<()> {
    if !inner.vocab.eos().is_empty() {
        return Ok(());
    }
    let no_end = |message: String| {
        Err(Error::new(ErrorKind::Tokenizer, message)
            .hint("name the end token (`Vocabulary::with_eos`), or labels of which none begins another"))
    };
    for items in [Some(&inner.first), inner.next.as_ref()].into_iter().flatten() {
        for node in 0..items.nodes.len() as LabelNode {
            if let (Some(label), [_, ..]) = (items.label(node), items.children(node)) {
                let label = &inner.labels[label as usize];
                return no_end(format!(
                    "the vocabulary has no end token, and the label {label:?} begins another one"
                ));
            }
        }
    }
    let several = inner.several.as_ref();
    let all = |s: &Several| !s.repeats && s.least as usize == inner.labels.len();
    if several.is_some_and(|s| s.most != Some(s.least) && !all(s)) {
        return no_end("the vocabulary has no end token, and the number of labels is open".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::encode_after::spells;
    use super::*;

    #[test]
    fn the_proof_notices_what_is_wrong() {
        let json = include_bytes!("../../../../runtime/assets/extract-5m/tokenizer.json");
        let vocab = Vocabulary::from_bytes(json).unwrap().with_eos(vec![2]);
        let labels: Vec<String> = ["sport", "sports", "science"].map(String::from).to_vec();
        let spellings: Vec<_> = labels.iter().map(|l| vocab.encode(l).unwrap()).collect();
        assert!(spells(&vocab, &spellings[0], &labels[0]));
        let items = LabelItems::new(&spellings).unwrap();
        items.prove(&vocab, "", &labels).unwrap();
        let fails =
            |items: &LabelItems, front: &str, labels: &[String]| items.prove(&vocab, front, labels).is_err();
        assert!(fails(&items, " ", &labels), "the lead is part of it");
        let mut more = labels.clone();
        more.push("law".into());
        assert!(fails(&items, "", &more), "a label without a path");
        assert!(fails(&items, "", &labels[..2]), "a path without a label");
        let mut swapped = labels.clone();
        swapped.swap(0, 2);
        assert!(fails(&items, "", &swapped));
        let mut lost = LabelItems::new(&spellings).unwrap();
        lost.nodes.last_mut().unwrap().label = NO_LABEL;
        assert!(fails(&lost, "", &labels), "a path that ends without a label");
    }
}
