//! Interned sets of the names and declared properties that an object has so far.
//!
//! A JSON object must not repeat a name, may have a bounded number of properties, and may have them
//! in any order. None of that is regular in the size of the object. So the rule of an object runs
//! with the number of a [`SeenSet`]. The rule of a name runs with the number of a [`NameProgress`]:
//! the set that it must not repeat, and its text so far. Texts are nodes of one growing trie, and
//! sets are chains with shared tails. Both are interned, so equal histories have equal numbers.
//!
//! While a mask is made, tokens are tried that may never be taken. Their names are not remembered:
//! such a text is [`UNKNOWN`]. This suffices unless the token holds the name twice.
//!
//! # Cost
//!
//! Adding a name takes a hash lookup, testing for one a step per name of the object.
//!
//! # Alternatives considered
//!
//! A set of hashes: it would have to be copied at each name, or could not be rolled back.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashSet};
use smallvec::SmallVec;

use crate::machine::properties::name_trie::OFF_TRIE;

/// Index of a text: a node of the trie of texts.
pub(crate) type TextId = u32;
/// The empty text.
pub(crate) const NO_TEXT: TextId = 0;
/// A text of which is known only that no remembered name begins with it.
pub(crate) const UNKNOWN: TextId = u32::MAX;
/// In place of the text of the output: bytes are only tried, and no name is remembered.
pub(crate) const TRIED: TextId = UNKNOWN;

/// Index of a set; 0 is the empty one.
pub(crate) type SetId = u32;

/// The properties of an object so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct SeenSet {
    /// The declared properties that are present, one bit each; no zero words at the end.
    pub taken: SmallVec<[u64; 1]>,
    /// The last undeclared name, as an index of the chain of names; 0 for none.
    names: u32,
    /// Number of properties, as far as it matters.
    pub count: u32,
}

impl SeenSet {
    /// Returns true if a declared property is present.
    #[inline]
    pub(crate) fn has(&self, property: u32) -> bool {
        self.taken.get(property as usize / 64).is_some_and(|word| word >> (property % 64) & 1 == 1)
    }
}

/// The progress of a name: its text so far, and the names that it must not repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NameProgress {
    /// The properties of the object so far.
    pub set: SetId,
    /// The text.
    pub text: TextId,
    /// The node of the text in the trie of declared names, or [`OFF_TRIE`].
    pub declared: u32,
}

/// An undeclared name in a chain.
#[derive(Debug, Clone, Copy)]
struct Name {
    /// Number of names up to this one.
    count: u32,
    /// True if some token can hold one of them with both quotes.
    visible: bool,
}

/// Texts of whole strings, quotes included, inside single tokens.
pub(crate) type WholeStrings = FxHashSet<Box<[u8]>>;

/// All sets and texts met so far.
#[derive(Debug, Clone)]
pub(crate) struct SeenNames {
    /// The text without its last byte, that byte, and the length.
    texts: IndexMap<(TextId, u8), u32, FxBuildHasher>,
    /// The names before, and the last one; 0 stands for no names.
    names: IndexMap<(u32, TextId), Name, FxBuildHasher>,
    sets: IndexSet<SeenSet, FxBuildHasher>,
    /// Bytes on the heap of sets of more than 64 declared properties.
    wide_bytes: usize,
    places: IndexSet<NameProgress, FxBuildHasher>,
    shown: Arc<WholeStrings>,
}

impl SeenNames {
    /// Creates an empty table; `shown` are the quoted texts inside single tokens.
    pub(crate) fn new(shown: Arc<WholeStrings>) -> Self {
        SeenNames {
            texts: IndexMap::from_iter([((UNKNOWN, 0), 0)]),
            names: IndexMap::from_iter([((u32::MAX, UNKNOWN), Name { count: 0, visible: false })]),
            sets: IndexSet::from_iter([SeenSet::default()]),
            wide_bytes: 0,
            places: IndexSet::default(),
            shown,
        }
    }

    /// Returns the bytes held, without the texts inside tokens, which all grammars share.
    pub(crate) fn table_bytes(&self) -> usize {
        // A hash and an index beside each entry.
        let texts = self.texts.capacity() * (size_of::<(TextId, u8, u32)>() + 17);
        let names = self.names.capacity() * (size_of::<(u32, TextId, Name)>() + 17);
        let sets = self.sets.capacity() * (size_of::<SeenSet>() + 17) + self.wide_bytes;
        texts + names + sets + self.places.capacity() * (size_of::<NameProgress>() + 17)
    }

    /// Creates an empty table over the same tokens.
    pub(crate) fn renewed(&self) -> SeenNames {
        SeenNames::new(self.shown.clone())
    }

    /// Returns true if a text was begun that had to be new.
    pub(crate) fn remembers(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns a set.
    #[inline]
    pub(crate) fn set(&self, id: SetId) -> &SeenSet {
        &self.sets[id as usize]
    }

    /// Returns the number of undeclared names in a set.
    pub(crate) fn names(&self, id: SetId) -> u32 {
        self.names[self.set(id).names as usize].count
    }

    /// Returns true if some token can hold one of a set's undeclared names with both quotes.
    pub(crate) fn is_visible(&self, id: SetId) -> bool {
        self.names[self.set(id).names as usize].visible
    }

    fn intern(&mut self, set: SeenSet) -> SetId {
        let bytes = if set.taken.spilled() { 2 * size_of_val(&set.taken[..]) } else { 0 };
        let (id, is_new) = self.sets.insert_full(set);
        self.wide_bytes += if is_new { bytes } else { 0 };
        id as SetId
    }

    /// Returns the set with one more declared property; properties are counted up to `cap`.
    pub(crate) fn with_property(&mut self, id: SetId, property: u32, cap: u32) -> SetId {
        let mut set = self.set(id).clone();
        let word = property as usize / 64;
        if set.taken.len() <= word {
            set.taken.resize(word + 1, 0);
        }
        set.taken[word] |= 1 << (property % 64);
        set.count = cap.min(set.count + 1);
        self.intern(set)
    }

    /// Returns the set with one more property that need not be remembered.
    pub(crate) fn with_one(&mut self, id: SetId, cap: u32) -> SetId {
        let mut set = self.set(id).clone();
        set.count = cap.min(set.count + 1);
        self.intern(set)
    }

    /// Returns the set with one more undeclared name.
    pub(crate) fn with_name(&mut self, id: SetId, text: TextId, cap: u32) -> SetId {
        let mut set = self.set(id).clone();
        let before = set.names;
        set.names = match self.names.get_index_of(&(before, text)) {
            Some(known) => known as u32,
            None => {
                let Name { count, visible } = self.names[before as usize];
                let visible =
                    visible || text != UNKNOWN && self.shown.contains(&self.between(NO_TEXT, text)[..]);
                self.names.insert_full((before, text), Name { count: count + 1, visible }).0 as u32
            }
        };
        set.count = cap.min(set.count + 1);
        self.intern(set)
    }

    /// Returns the text without its last byte, and that byte; `None` for an empty or unknown text.
    pub(crate) fn last_byte(&self, text: TextId) -> Option<(TextId, u8)> {
        let (&(before, byte), &length) = self.texts.get_index(text as usize)?;
        (length > 0).then_some((before, byte))
    }

    /// Returns the bytes of a text after its prefix `start`.
    pub(crate) fn between(&self, start: TextId, mut text: TextId) -> Vec<u8> {
        let mut bytes = Vec::new();
        while text != start
            && let Some((before, byte)) = self.last_byte(text)
        {
            bytes.push(byte);
            text = before;
        }
        bytes.reverse();
        bytes
    }

    /// Returns the text with one more byte, or [`UNKNOWN`] if it was not met.
    #[inline]
    pub(crate) fn known_with_byte(&self, text: TextId, byte: u8) -> TextId {
        if text == UNKNOWN {
            return UNKNOWN;
        }
        self.texts.get_index_of(&(text, byte)).map_or(UNKNOWN, |id| id as TextId)
    }

    /// Returns the text with one more byte. A new text is remembered only if `record` is true.
    #[inline]
    pub(crate) fn with_byte(&mut self, text: TextId, byte: u8, record: bool) -> TextId {
        let known = self.known_with_byte(text, byte);
        if known != UNKNOWN || text == UNKNOWN || !record {
            return known;
        }
        let length = self.texts[text as usize] + 1;
        self.texts.insert_full((text, byte), length).0 as TextId
    }

    /// Returns the number of a name's progress.
    pub(crate) fn place_id(&mut self, place: NameProgress) -> u32 {
        self.places.insert_full(place).0 as u32
    }

    /// Returns the progress of a name by its number.
    #[inline]
    pub(crate) fn place(&self, id: u32) -> NameProgress {
        self.places[id as usize]
    }

    /// Returns the known undeclared names of a set, the last first.
    fn texts_of(&self, set: SetId) -> impl Iterator<Item = TextId> + '_ {
        let name =
            |at: u32| (at != 0).then(|| self.names.get_index(at as usize).map(|name| *name.0)).flatten();
        let names = std::iter::successors(name(self.set(set).names), move |&(before, _)| name(before));
        names.map(|(_, text)| text).filter(|&text| text != UNKNOWN)
    }

    /// Returns true if a set has a name.
    pub(crate) fn has(&self, set: SetId, text: TextId) -> bool {
        text != UNKNOWN && self.texts_of(set).any(|t| t == text)
    }

    /// Returns true if a name of the set, or a declared one, begins with the text of `place`.
    pub(crate) fn shares_prefix(&self, place: NameProgress) -> bool {
        if place.declared != OFF_TRIE {
            return true;
        }
        place.text != UNKNOWN && self.texts_of(place.set).any(|t| self.begins(place.text, t))
    }

    /// Returns the nodes of the trie of texts on the paths from `text` to the names of the set that
    /// begin with it.
    pub(crate) fn prefix_nodes(&self, set: SetId, text: TextId) -> FxHashSet<TextId> {
        let mut ways = FxHashSet::default();
        if text == UNKNOWN || self.names(set) == 0 {
            return ways;
        }
        for name in self.texts_of(set).filter(|&t| self.begins(text, t)) {
            let mut at = name;
            while at != text && ways.insert(at) {
                at = self.last_byte(at).map_or(NO_TEXT, |(before, _)| before);
            }
        }
        ways
    }

    /// Returns the remaining bytes of each name of the set that begins with the text of `place`.
    pub(crate) fn remaining(&self, place: NameProgress) -> Vec<Vec<u8>> {
        if place.text == UNKNOWN {
            return Vec::new();
        }
        let names = self.texts_of(place.set).filter(|&t| self.begins(place.text, t));
        names.map(|t| self.between(place.text, t)).collect()
    }

    fn begins(&self, start: TextId, mut text: TextId) -> bool {
        let length = self.texts[start as usize];
        while self.texts[text as usize] > length
            && let Some((before, _)) = self.last_byte(text)
        {
            text = before;
        }
        text == start
    }
}
