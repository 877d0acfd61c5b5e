//! Watches the values of a JSON output: ends values that repeat themselves, and strings that do not
//! fit into their `maxLength`.
//!
//! Both are decided position by position, from the text so far, the mask row and the logits of that
//! position. So it does not matter which forward computed the logits, and all modes decide the same.
//! [`OutputWatch::end_runaway`] takes tokens out of the mask row. What is left is legal, so the
//! output can still be completed; where nothing would be left, nothing is taken out.
//!
//! # Cost
//!
//! One copy of the text for each round, and the costs of the parts.

mod repetition;
mod runaway;
mod string_end;

use std::sync::Arc;

use super::thinking::Thinking;
use crate::matcher::Matcher;
use crate::vocab::{TokenId, Vocabulary};
use ffwd_engine::json_scan::{JsonScan, ScanStep};
use runaway::{MAX_DEPTH, Runaway};
use string_end::GoodEnds;
pub(super) use string_end::{CutPoint, PlainTokens, StringEnd};

/// Largest number of bytes of a completion that closes a string.
const LONGEST_CLOSING: usize = 4096;

/// What is watched, the same for a whole generation.
pub(super) struct WatchOptions {
    /// True to end values that repeat themselves.
    pub guard: bool,
    /// To end strings at a word or sentence before their limit.
    pub plain: Option<Arc<PlainTokens>>,
    /// The text that may be copied.
    pub source: String,
    /// The answer begins after thinking.
    pub thinking: Option<Thinking>,
}

/// The watch at one position of an output.
#[derive(Clone)]
pub(super) struct OutputWatch {
    options: Arc<WatchOptions>,
    /// The output so far, and the offset of the answer in it.
    text: Vec<u8>,
    answer: Option<usize>,
    tokens: usize,
    scan: JsonScan,
    /// The ends of the open string.
    ends: GoodEnds,
    /// True if the open string may be closed at the current position.
    closes: bool,
    /// True if the open string was cut, and has to be closed.
    cut: bool,
    /// The array or object that gets no further items, until it is closed.
    full: Option<Runaway>,
}

impl OutputWatch {
    /// Returns the watch at the start of an output.
    pub(super) fn new(options: WatchOptions) -> Self {
        OutputWatch {
            answer: options.thinking.is_none().then_some(0),
            options: Arc::new(options),
            text: Vec::new(),
            tokens: 0,
            scan: JsonScan::of_first_value(MAX_DEPTH),
            ends: GoodEnds::default(),
            closes: false,
            cut: false,
            full: None,
        }
    }

    /// Advances by the bytes of a token.
    pub(super) fn advance(&mut self, bytes: &[u8]) {
        if std::mem::take(&mut self.closes) {
            let at = CutPoint { tokens: self.tokens, bytes: self.text.len() };
            if let Some(string) = self.open_text() {
                let (mut ends, text) = (self.ends, string.to_vec());
                ends.note(at, &text, bytes);
                self.ends = ends;
            }
        }
        self.text.extend_from_slice(bytes);
        self.tokens += 1;
        let answered = match (self.answer, &self.options.thinking) {
            (Some(_), _) => self.text.len() - bytes.len(),
            (None, Some(thinking)) => {
                self.answer = thinking.answer_begins(&self.text, bytes.len());
                self.answer.unwrap_or(self.text.len())
            }
            (None, None) => self.text.len(),
        };
        for at in answered..self.text.len() {
            if let ScanStep::ClosesString { .. } = self.scan.feed(self.text[at]) {
                (self.ends, self.cut) = (GoodEnds::default(), false);
            }
        }
    }

    /// Returns the number of bytes at the end of the output that may still be cut.
    pub(super) fn undecided(&self) -> usize {
        self.ends.kept().map_or(0, |kept| self.text.len() - kept)
    }

    /// Returns the answer so far.
    fn answer_text(&self) -> &[u8] {
        &self.text[self.answer.unwrap_or(self.text.len())..]
    }

    /// Returns the text of the open string so far.
    fn open_text(&self) -> Option<&[u8]> {
        self.scan.string().map(|string| &self.answer_text()[string.start + 1..])
    }

    /// Returns the JSON pointer of the open value that begins at an offset in the answer.
    fn pointer(&self, start: usize) -> String {
        let around = self.scan.containers().iter().take_while(|open| open.start < start).count();
        self.scan.pointer_within(self.answer_text(), around)
    }

    /// Takes out of a mask row the tokens that would continue a value that repeats itself; returns
    /// its JSON pointer if there were any.
    pub(super) fn end_runaway(&mut self, matcher: &Matcher, row: &mut [u32]) -> Option<String> {
        if !self.options.guard {
            return None;
        }
        let found = self.runaway()?;
        let vocab = matcher.vocabulary();
        let changed = match found {
            Runaway::String { .. } if may_close(row, vocab) => retain(row, vocab, closes),
            // It may close once it is long enough.
            Runaway::String { .. } if matcher.string_bounds().is_some_and(|b| b.0 > 0) => return None,
            Runaway::String { .. } => {
                let closing = self.closing(matcher)?;
                let along = |bytes: &[u8]| closing.starts_with(bytes) || bytes.starts_with(&closing);
                retain(row, vocab, |bytes| !bytes.is_empty() && along(bytes))
            }
            Runaway::Items { depth, .. } => retain(row, vocab, |bytes| {
                !self.reaches(bytes, |scan, step| {
                    step == ScanStep::Separates && scan.containers().len() == depth + 1
                })
            }),
            Runaway::Nesting { .. } => {
                retain(row, vocab, |bytes| matches!(bytes.first(), Some(b']' | b'}')))
                    || retain(row, vocab, |bytes| !self.reaches(bytes, |_, step| step == ScanStep::Opens))
                    // Where one must open, it may close behind its bracket, but not in the name behind that.
                    || retain(row, vocab, |bytes| matches!(bytes.last(), Some(b'[' | b'{' | b']' | b'}')))
            }
        };
        changed.then(|| self.pointer(found.start()))
    }

    /// Returns the value that repeats itself. An array in which one was found stays one, even if
    /// its last item differs.
    fn runaway(&mut self) -> Option<Runaway> {
        let open = self.scan.containers();
        let is_open = |full: &Runaway| match *full {
            Runaway::Items { start, depth } => open.get(depth).is_some_and(|c| c.start == start),
            _ => false,
        };
        self.full = self.full.filter(is_open);
        let found = runaway::runaway(self.answer_text(), &self.scan, &self.options.source);
        if let Some(Runaway::Items { .. }) = found {
            self.full = found;
        }
        found.or(self.full)
    }

    /// Returns the bytes that close the open string soonest, where a quotation mark alone does not.
    fn closing(&self, matcher: &Matcher) -> Option<Vec<u8>> {
        let mut completion = matcher.shortest_completion(LONGEST_CLOSING)?;
        let mut scan = self.scan.clone();
        let end = completion.iter().position(|b| matches!(scan.feed(*b), ScanStep::ClosesString { .. }))?;
        completion.truncate(end + 1);
        Some(completion)
    }

    /// Returns true if a byte of a token takes a step for which `is` holds.
    fn reaches(&self, bytes: &[u8], is: impl Fn(&JsonScan, ScanStep) -> bool) -> bool {
        // Most tokens have no such byte.
        if !bytes.iter().any(|b| matches!(b, b',' | b'[' | b'{')) {
            return false;
        }
        let mut scan = self.scan.clone();
        bytes.iter().any(|b| {
            let step = scan.feed(*b);
            is(&scan, step)
        })
    }

    /// Returns the number of characters before the limit of the open string, if its end is near and
    /// a good one is wanted.
    pub(super) fn room(&self, matcher: &Matcher) -> Option<usize> {
        self.options.plain.as_ref()?;
        let string = self.scan.string().filter(|string| !string.name && !string.in_escape())?;
        let room = matcher.string_bounds()?.1?;
        (self.cut || string_end::is_near(string, room)).then_some(room)
    }

    /// Returns true if the open string was cut here and is to be closed.
    pub(super) fn was_cut(&self) -> bool {
        self.cut
    }

    /// Notes a position near the limit; `row` is its mask row.
    pub(super) fn note(&mut self, row: &[u32], vocab: &Vocabulary) {
        self.closes = !self.cut && may_close(row, vocab);
    }

    /// Adds to a mask row the tokens of text that do not fit into `room` characters; returns true
    /// if there are any.
    pub(super) fn lift(&self, row: &mut [u32], room: usize) -> bool {
        self.options.plain.as_ref().is_some_and(|plain| plain.lift(row, room))
    }

    /// Returns the end of the open string, after which `next` does not fit.
    pub(super) fn string_end(&self, next: &[u8]) -> StringEnd {
        match (self.scan.string(), self.open_text()) {
            (Some(string), Some(text)) => self.ends.choose(string, text, next, self.closes),
            _ => StringEnd::Filled,
        }
    }

    /// Returns the JSON pointer of the open string.
    pub(super) fn string_pointer(&self) -> String {
        self.scan.string().map_or(String::new(), |string| self.pointer(string.start))
    }

    /// Returns to an earlier position within the open string, which is to be closed there.
    pub(super) fn cut_back(&mut self, to: CutPoint) {
        self.text.truncate(to.bytes);
        self.tokens = to.tokens;
        self.scan = JsonScan::of_first_value(MAX_DEPTH);
        let from = self.answer.unwrap_or(to.bytes);
        for at in from..self.text.len() {
            self.scan.feed(self.text[at]);
        }
        (self.ends, self.closes, self.cut) = (GoodEnds::default(), false, true);
    }
}

/// Leaves only the tokens in a mask row that close the open string at once, if there are any.
pub(super) fn close_string(row: &mut [u32], vocab: &Vocabulary) {
    retain(row, vocab, closes);
}

/// Returns true if a token of a mask row closes the open string at once.
fn may_close(row: &[u32], vocab: &Vocabulary) -> bool {
    legal(row).any(|token| closes(vocab.token_bytes(token)))
}

/// Returns true for a token that closes a string at once.
fn closes(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'"')
}

/// Iterates over the tokens of a mask row.
fn legal(row: &[u32]) -> impl Iterator<Item = TokenId> + '_ {
    row.iter().enumerate().flat_map(|(i, &word)| {
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i as TokenId * 32 + bit)
    })
}

/// Keeps the tokens of a mask row for which `keep` holds. Changes nothing and returns false if none
/// would be left, or all.
fn retain(row: &mut [u32], vocab: &Vocabulary, keep: impl Fn(&[u8]) -> bool) -> bool {
    let gone: Vec<TokenId> = legal(row).filter(|&token| !keep(vocab.token_bytes(token))).collect();
    if gone.is_empty() || gone.len() == legal(row).count() {
        return false;
    }
    gone.iter().for_each(|token| row[*token as usize / 32] &= !(1 << (token % 32)));
    true
}
