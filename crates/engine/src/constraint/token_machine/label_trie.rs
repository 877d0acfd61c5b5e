//! Labels in tokens: a trie whose ends are the labels.
//!
//! Nodes lie in depth-first order, so the labels below a node are a range; that makes "is anything left
//! below here" a subtraction, which is what forbidding repetitions needs. Labels behind a separator have a
//! trie of their own, whose paths begin with the separator's tokens: tokenizers may merge the two. Building
//! costs a few encodings for each label, a sort, and the proof: every path from the root to an end is
//! enumerated, decoded and compared with the labels.

use std::sync::Arc;

use super::encode_after::{alone, behind};
use super::labels::{Labels, Lead, Several, invalid};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::{TokenId, Vocabulary};
use crate::warning::{Warning, WarningKind};

/// A node of a [`LabelTrie`].
pub type LabelNode = u32;

/// Most nodes of a trie.
const MAX_NODES: usize = 1 << 25;
/// No label.
const NONE: u32 = u32::MAX;
/// Most labels that a warning names.
const MAX_NAMED: usize = 3;

/// Labels in the tokens of a vocabulary. Cheap to clone.
#[derive(Clone)]
pub struct LabelTrie(Arc<Inner>);

struct Inner {
    vocab: Vocabulary,
    labels: Vec<String>,
    lead: &'static str,
    path_separator: Option<String>,
    first: Items,
    /// Separators and the labels behind them.
    next: Option<Items>,
    several: Option<Several>,
    warnings: Vec<Warning>,
}

/// The trie of what may come at one place: labels at the beginning, or separators and labels.
pub(crate) struct Items {
    nodes: Vec<Node>,
    /// Tokens and nodes, those of one node together and sorted.
    edges: Vec<(TokenId, LabelNode)>,
    /// The labels in the order of their paths.
    order: Vec<u32>,
    /// Where each label stands in `order`.
    rank: Vec<u32>,
}

struct Node {
    parent: LabelNode,
    token: TokenId,
    edges: (u32, u32),
    /// The label that ends here, or `NONE`.
    label: u32,
    /// The labels that end here or below, as a range of `order`.
    ranks: (u32, u32),
    /// Tokens from here to the nearest end.
    nearest: u32,
}

impl Items {
    /// The trie of the labels' spellings, by the number of the label.
    fn new(spellings: &[Vec<TokenId>]) -> Result<Self> {
        let mut order: Vec<u32> = (0..spellings.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| spellings[a as usize].cmp(&spellings[b as usize]));
        let mut rank = vec![0; order.len()];
        for (at, &label) in order.iter().enumerate() {
            rank[label as usize] = at as u32;
        }
        let node = |parent, token, at| Node {
            parent,
            token,
            edges: (0, 0),
            label: NONE,
            ranks: (at, at),
            nearest: NONE,
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
            // The last node of a path is its end; different labels have different texts, so different paths.
            nodes[path[tokens.len()] as usize].label = label;
            for &on in &path {
                nodes[on as usize].ranks.1 = at as u32 + 1;
            }
            before = tokens;
        }
        let edges = connect(&mut nodes);
        Ok(Items { nodes, edges, order, rank })
    }

    pub fn children(&self, node: LabelNode) -> &[(TokenId, LabelNode)] {
        let (from, to) = self.nodes[node as usize].edges;
        &self.edges[from as usize..to as usize]
    }

    pub fn child(&self, node: LabelNode, token: TokenId) -> Option<LabelNode> {
        let children = self.children(node);
        children.binary_search_by_key(&token, |e| e.0).ok().map(|at| children[at].1)
    }

    pub fn label(&self, node: LabelNode) -> Option<u32> {
        Some(self.nodes[node as usize].label).filter(|&l| l != NONE)
    }

    /// The labels that end at a node or below, as a range of ranks.
    pub fn ranks(&self, node: LabelNode) -> std::ops::Range<u32> {
        let (from, to) = self.nodes[node as usize].ranks;
        from..to
    }

    pub fn rank(&self, label: u32) -> u32 {
        self.rank[label as usize]
    }

    /// Tokens from a node to the nearest end.
    pub fn nearest(&self, node: LabelNode) -> u32 {
        self.nodes[node as usize].nearest
    }

    /// The tokens from the root to a node.
    pub fn path(&self, mut node: LabelNode) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        while node != 0 {
            tokens.push(self.nodes[node as usize].token);
            node = self.nodes[node as usize].parent;
        }
        tokens.reverse();
        tokens
    }

    pub fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>() + self.edges.len() * 8 + self.order.len() * 8
    }

    /// Enumerates the paths to all ends, decodes them, and compares them with the labels.
    fn prove(&self, vocab: &Vocabulary, front: &str, labels: &[String]) -> Result<()> {
        let broken = |what: String| Err(Error::new(ErrorKind::Tokenizer, what));
        let mut met = vec![false; labels.len()];
        // Node, and how long the text is in front of its token.
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

/// Makes the edges of nodes in depth-first order, and their distances to the nearest end.
fn connect(nodes: &mut [Node]) -> Vec<(TokenId, LabelNode)> {
    let mut counts = vec![0u32; nodes.len()];
    for at in (1..nodes.len()).rev() {
        let parent = nodes[at].parent as usize;
        counts[parent] += 1;
        let here = &mut nodes[at];
        if here.label != NONE {
            here.nearest = 0;
        }
        // Every node lies on the path to an end, so this is a number; children come before their parents.
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
        let (lead, first) = spell_first(vocab, &texts, labels.lead_option())?;
        let items = Items::new(&first)?;
        items.prove(vocab, lead, &texts)?;
        let mut inner = Inner {
            vocab: vocab.clone(),
            labels: texts,
            lead,
            path_separator: labels.path_separator().map(str::to_owned),
            first: items,
            next: None,
            several: labels.several_option().cloned(),
            warnings: Vec::new(),
        };
        if let Some(several) = inner.several.clone() {
            let (next, warnings) = spell_next(vocab, &inner.labels, lead, &first, &several.separator)?;
            let next = Items::new(&next)?;
            next.prove(vocab, &several.separator, &inner.labels)?;
            for items in [&inner.first, &next] {
                one_way_on(vocab, items, &next, &inner.labels, &several.separator)?;
            }
            inner.next = Some(next);
            inner.warnings = warnings;
        }
        can_end(&inner)?;
        Ok(LabelTrie(Arc::new(inner)))
    }

    /// The labels, in the order in which they were given; with the ancestors that were asked for.
    pub fn labels(&self) -> &[String] {
        &self.0.labels
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.0.labels.len()
    }

    /// Whether there are no labels; never true, for the sake of `len`.
    pub fn is_empty(&self) -> bool {
        self.0.labels.is_empty()
    }

    /// What stands in front of the first label: a space, or nothing.
    pub fn lead(&self) -> &str {
        self.0.lead
    }

    /// What stands between the parts of a path, if labels are paths.
    pub fn path_separator(&self) -> Option<&str> {
        self.0.path_separator.as_deref()
    }

    /// Whether an output may have several labels.
    pub fn has_several(&self) -> bool {
        self.0.several.is_some()
    }

    /// What the user should know: labels that the tokenizer might write differently beside a separator.
    pub fn warnings(&self) -> &[Warning] {
        &self.0.warnings
    }

    /// The vocabulary it was made for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocab
    }

    /// The node in front of the first label.
    pub fn root(&self) -> LabelNode {
        0
    }

    /// Number of nodes, of the trie of labels at the beginning of an output.
    pub fn node_count(&self) -> usize {
        self.0.first.nodes.len()
    }

    /// The tokens that go on from a node and where they lead, sorted.
    ///
    /// # Panics
    /// If the node is not one of this trie.
    pub fn children(&self, node: LabelNode) -> &[(TokenId, LabelNode)] {
        self.0.first.children(node)
    }

    /// Where a token leads from a node.
    ///
    /// # Panics
    /// If the node is not one of this trie.
    pub fn advance(&self, node: LabelNode, token: TokenId) -> Option<LabelNode> {
        self.0.first.child(node, token)
    }

    /// The number of the label that ends at a node. It may go on to others.
    ///
    /// # Panics
    /// If the node is not one of this trie.
    pub fn label_at(&self, node: LabelNode) -> Option<usize> {
        self.0.first.label(node).map(|l| l as usize)
    }

    /// The tokens of a label at the beginning of an output, what stands in front of it included.
    ///
    /// # Panics
    /// If there is no label of this number.
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

    /// The labels that an output consists of, in its order; none if it is not one of this constraint or not
    /// complete. How many there may be, and whether they repeat, is not looked at.
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

    /// Labels that end at a node or below.
    ///
    /// # Panics
    /// If the node is not one of this trie.
    pub fn labels_below(&self, node: LabelNode) -> usize {
        self.0.first.ranks(node).len()
    }

    /// The tokens from the root to a node.
    ///
    /// # Panics
    /// If the node is not one of this trie.
    pub fn path(&self, node: LabelNode) -> Vec<TokenId> {
        self.0.first.path(node)
    }

    /// Whether this vocabulary spells all labels by the same tokens: the proof once more.
    pub fn prove_for(&self, vocab: &Vocabulary) -> Result<()> {
        if self.0.vocab.is_same(vocab) {
            return Ok(());
        }
        self.0.first.prove(vocab, self.0.lead, &self.0.labels).map_err(|e| {
            Error::new(
                ErrorKind::Tokenizer,
                format!("the labels were made for another vocabulary: {}", e.message()),
            )
            .hint("make the trie with the vocabulary of the engine (`Engine::label_trie`)")
        })
    }

    pub(crate) fn first(&self) -> &Items {
        &self.0.first
    }

    pub(crate) fn next(&self) -> Option<&Items> {
        self.0.next.as_ref()
    }

    /// Fewest and most labels, and whether they may repeat.
    pub(crate) fn counts(&self) -> (u32, Option<u32>, bool) {
        self.0.several.as_ref().map_or((1, Some(1), false), |s| (s.least, s.most, s.repeats))
    }

    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.0.labels.iter().map(|l| l.len() + size_of::<String>()).sum();
        self.0.first.bytes() + self.0.next.as_ref().map_or(0, Items::bytes) + texts
    }
}

impl std::fmt::Debug for LabelTrie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabelTrie").field("labels", &self.len()).field("nodes", &self.node_count()).finish()
    }
}

/// What stands in front of labels, and their spellings behind a prompt.
fn spell_first(
    vocab: &Vocabulary,
    labels: &[String],
    lead: Lead,
) -> Result<(&'static str, Vec<Vec<TokenId>>)> {
    let spell = |lead: &str, label: &String| alone(vocab, &[lead, label].concat());
    let lead = match lead {
        Lead::Space => " ",
        Lead::Nothing => "",
        // The tokenizer decides, not the labels: all of them have the same in front.
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

/// The spellings of the separator and each label behind another label, and what the tokenizer would write
/// differently.
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
        // Behind the probe as the tokenizer writes it, or else as it would alone.
        let (spelling, fits) = match behind(vocab, &probe, &text)? {
            Some((_, spelling)) => (Some(spelling), true),
            None => (alone(vocab, &text)?, false),
        };
        let Some(spelling) = spelling else {
            let message = format!("the tokenizer does not give the separator and the label {text:?} back");
            return Err(Error::new(ErrorKind::Tokenizer, message).hint("choose another separator"));
        };
        spellings.push(spelling);
        // And the label in front of a separator must stay as it is.
        let whole = behind(vocab, &[lead, label].concat(), &[separator, &labels[0]].concat())?;
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

/// Whether the tokens behind each label tell if it goes on or a separator comes.
fn one_way_on(
    vocab: &Vocabulary,
    items: &Items,
    next: &Items,
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

/// Without an end token nothing could be said where an output may end or go on.
fn can_end(inner: &Inner) -> Result<()> {
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
        let json = include_bytes!("../../../../../assets/extract-5m/tokenizer.json");
        let vocab = Vocabulary::from_bytes(json).unwrap().with_eos(vec![2]);
        let labels: Vec<String> = ["sport", "sports", "science"].map(String::from).to_vec();
        let spellings: Vec<_> = labels.iter().map(|l| vocab.encode(l).unwrap()).collect();
        assert!(spells(&vocab, &spellings[0], &labels[0]));
        let items = Items::new(&spellings).unwrap();
        items.prove(&vocab, "", &labels).unwrap();
        let fails =
            |items: &Items, front: &str, labels: &[String]| items.prove(&vocab, front, labels).is_err();
        assert!(fails(&items, " ", &labels), "the lead is part of it");
        let mut more = labels.clone();
        more.push("law".into());
        assert!(fails(&items, "", &more), "a label without a path");
        assert!(fails(&items, "", &labels[..2]), "a path without a label");
        let mut swapped = labels.clone();
        swapped.swap(0, 2);
        assert!(fails(&items, "", &swapped));
        let mut lost = Items::new(&spellings).unwrap();
        lost.nodes.last_mut().unwrap().label = NONE;
        assert!(fails(&lost, "", &labels), "a path that ends without a label");
    }
}
