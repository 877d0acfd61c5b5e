//! Vocabulary slices: the tokens made only of characters of one class, decided once per tokenizer.
//!
//! Most of a vocabulary is ordinary text. If a state stays alive under every string over a class,
//! all tokens of that class are legal there, and only the others (the *residue*, a trie of its own)
//! have to be walked. On the Llama 3 vocabulary the widest slice holds 95% of the tokens.

use super::{TokenId, Trie, TrieNode};

/// The class of characters a slice is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceKind {
    /// Any Unicode character that needs no escape in a JSON string, complete UTF-8 only.
    JsonText,
    /// Printable ASCII that needs no escape in a JSON string.
    JsonAscii,
    /// ASCII letters, digits, `_` and `-`.
    Word,
    /// ASCII lower-case letters, digits and `-`.
    Lower,
}

impl SliceKind {
    /// Whether the ASCII byte belongs to the class.
    pub fn has_ascii(self, b: u8) -> bool {
        match self {
            SliceKind::JsonText => (0x20..0x80).contains(&b) && b != b'"' && b != b'\\',
            SliceKind::JsonAscii => (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\',
            SliceKind::Word => b.is_ascii_alphanumeric() || b == b'_' || b == b'-',
            SliceKind::Lower => b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-',
        }
    }

    /// Whether all characters beyond ASCII belong to the class (else none does).
    pub fn has_unicode(self) -> bool {
        self == SliceKind::JsonText
    }

    fn holds(self, bytes: &[u8]) -> bool {
        let ascii = bytes.iter().all(|&b| b >= 0x80 || self.has_ascii(b));
        ascii && (bytes.is_ascii() || self.has_unicode() && std::str::from_utf8(bytes).is_ok())
    }
}

/// One slice: its mask and the trie of the tokens outside it.
pub struct Slice {
    /// The class.
    pub kind: SliceKind,
    /// Packed bitmask of the tokens in the slice.
    pub mask: Vec<u32>,
    /// The tokens outside the slice.
    pub residue: Trie,
    /// For each node of `residue` the node of the full trie with the same path.
    pub full_node: Vec<TrieNode>,
    /// Number of characters of each token in the slice, 0 for the others (saturating at 255).
    chars: Vec<u8>,
    /// The largest of `chars`.
    longest: u8,
}

impl Slice {
    /// All slices of a vocabulary, widest first.
    pub(super) fn all<'a, I>(trie: &Trie, pairs: impl Fn() -> I, len: usize) -> Vec<Slice>
    where
        I: Iterator<Item = (&'a [u8], TokenId)>,
    {
        [SliceKind::JsonText, SliceKind::JsonAscii, SliceKind::Word, SliceKind::Lower]
            .into_iter()
            .map(|kind| Slice::new(kind, trie, pairs(), len))
            .collect()
    }

    fn new<'a>(
        kind: SliceKind,
        trie: &Trie,
        pairs: impl Iterator<Item = (&'a [u8], TokenId)>,
        len: usize,
    ) -> Slice {
        let mut mask = vec![0u32; len.div_ceil(32)];
        let mut chars = vec![0u8; len];
        let mut outside = Vec::new();
        for (bytes, id) in pairs {
            if !bytes.is_empty() && kind.holds(bytes) {
                mask[id as usize / 32] |= 1 << (id % 32);
                let count = bytes.iter().filter(|&&b| b & 0xc0 != 0x80).count();
                chars[id as usize] = count.min(255) as u8;
            } else {
                outside.push((bytes, id));
            }
        }
        let residue = Trie::new(outside);
        let full_node = map_nodes(&residue, trie);
        let longest = chars.iter().copied().max().unwrap_or(0);
        Slice { kind, mask, residue, full_node, chars, longest }
    }

    /// The tokens of the slice with at most `limit` characters, as a packed bitmask.
    pub fn mask_up_to(&self, limit: u32) -> Vec<u32> {
        let mut mask = self.mask.clone();
        for (id, &n) in self.chars.iter().enumerate() {
            if u32::from(n) > limit || (n == 255 && limit < u32::MAX) {
                mask[id / 32] &= !(1 << (id % 32));
            }
        }
        mask
    }

    /// Whether a limit of `limit` characters excludes no token of the slice.
    pub fn all_up_to(&self, limit: u32) -> bool {
        self.longest < 255 && u32::from(self.longest) <= limit
    }
}

/// Walks both tries in step; every path of `part` exists in `full`.
fn map_nodes(part: &Trie, full: &Trie) -> Vec<TrieNode> {
    let mut map = vec![0; part.len() as usize];
    let mut at = vec![0u32];
    for p in 1..part.len() {
        let depth = part.depth(p);
        at.truncate(depth);
        // A path of `part` spells a token prefix of `full`, so the child exists.
        let node = full.child(at[depth - 1], part.byte(p)).unwrap_or(0);
        map[p as usize] = node;
        at.push(node);
    }
    map
}
