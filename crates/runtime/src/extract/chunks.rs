//! Cuts long texts into parts that a model can read, at the ends of sentences.
//!
//! Sentences, words and grapheme clusters are those of Unicode (UAX 29). A sentence that is too long
//! is cut at words, a word at grapheme clusters, and a cluster at characters.
//!
//! # Cost
//!
//! Each sentence is tokenised a few times: alone, in its part, and in the overlap of two parts.
//!
//! # Alternatives considered
//!
//! Cutting the tokens of the whole text was rejected: their ends lie within words and characters.
//! Adding the tokens of sentences was rejected as the length of a part, as a tokenizer may join or
//! split them otherwise together. It is the estimate that each part is checked against.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::spans::TextSpan;
use crate::error::{Error, ErrorKind, Result};

/// The lengths of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkOptions {
    /// Maximum length of a part, in tokens.
    pub tokens: usize,
    /// Maximum number of tokens at the end of a part that the next one repeats, at most half of
    /// `tokens`.
    pub overlap: usize,
}

/// A part of a text: its place there.
pub type Chunk = TextSpan;

/// Counts the tokens of a text.
type Count<'a> = &'a dyn Fn(&str) -> Result<usize>;

/// Cuts a text into parts of at most [`tokens`](ChunkOptions::tokens), as `count` counts them.
///
/// The parts are in the order of the text and leave nothing out. Each begins with the end of the one
/// before it: whole sentences of at most [`overlap`](ChunkOptions::overlap) tokens, or whole words
/// if the sentences have less than half of that. A text that is short enough is one part, an empty
/// one, too.
///
/// ```
/// use ffwd::extract::{ChunkOptions, chunks};
///
/// # fn main() -> ffwd::Result<()> {
/// let text = "Ann called. Bob wrote a letter. Cem waits.";
/// let words = |text: &str| Ok(text.split_whitespace().count());
/// let parts = chunks(text, &ChunkOptions { tokens: 6, overlap: 0 }, &words)?;
/// let parts: Vec<&str> = parts.into_iter().map(|part| &text[part.bytes]).collect();
/// assert_eq!(parts, ["Ann called. Bob wrote a letter. ", "Cem waits."]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the overlap is more than half of the limit, a single character has more tokens than the limit
/// without the overlap, or `count` fails.
pub fn chunks(text: &str, options: &ChunkOptions, count: Count) -> Result<Vec<Chunk>> {
    let ChunkOptions { tokens: limit, overlap } = *options;
    if limit == 0 || overlap > limit / 2 {
        let message = format!("an overlap of {overlap} tokens in parts of {limit}");
        return Err(Error::new(ErrorKind::InvalidOption, message)
            .hint("parts have at least one token, and an overlap is at most half of a part"));
    }
    if fitting(text, limit, count)?.is_some() {
        return Ok(in_characters(text, std::iter::once(0..text.len()).collect()));
    }
    let mut pieces = Vec::new();
    Level::Sentence.cut(text, 0..text.len(), limit - overlap, count, &mut pieces)?;
    let mut parts: Vec<Range<usize>> = Vec::new();
    // The first piece that no part has yet, and the start of the next part.
    let (mut next, mut start) = (0, 0);
    while next < pieces.len() {
        let rest = &pieces[next..];
        let end = |taken: usize| rest[..taken].last().map_or(rest[0].range.start, |piece| piece.range.end);
        let costs = |i: usize| rest.get(i).map(|piece| piece.tokens);
        let mut taken = most(limit, &costs, &|taken| count(&text[start..end(taken)]))?;
        if taken == 0 {
            // Together with the overlap, even one piece is too long.
            start = rest[0].range.start;
            taken = most(limit, &costs, &|taken| count(&text[start..end(taken)]))?.max(1);
        }
        parts.push(start..end(taken));
        let (first, end) = (start, end(taken));
        next += taken;
        start = overlap_start(text, first..end, &pieces[..next], overlap, count)?;
    }
    Ok(in_characters(text, parts))
}

/// Bytes for each token beyond which a text is too long without being counted: tokenizers need much
/// more memory than the text.
const TOKEN_BYTES: usize = 64;

/// Returns the number of tokens of a text, if it is at most `most`.
fn fitting(text: &str, most: usize, count: Count) -> Result<Option<usize>> {
    if text.len() > most.saturating_mul(TOKEN_BYTES) {
        return Ok(None);
    }
    Ok(Some(count(text)?).filter(|tokens| *tokens <= most))
}

/// A piece of a text that is not cut, with its tokens alone.
#[derive(Debug, Clone)]
struct TextPiece {
    range: Range<usize>,
    tokens: usize,
}

/// Units of a text, from large to small.
#[derive(Debug, Clone, Copy)]
enum Level {
    Sentence,
    Word,
    Cluster,
    Character,
}

impl Level {
    fn next(self) -> Option<Level> {
        match self {
            Level::Sentence => Some(Level::Word),
            Level::Word => Some(Level::Cluster),
            Level::Cluster => Some(Level::Character),
            Level::Character => None,
        }
    }

    /// Returns the lengths of the units in bytes.
    fn lengths(self, text: &str) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Level::Sentence => Box::new(text.split_sentence_bounds().map(str::len)),
            Level::Word => Box::new(text.split_word_bounds().map(str::len)),
            Level::Cluster => Box::new(text.graphemes(true).map(str::len)),
            Level::Character => Box::new(text.chars().map(char::len_utf8)),
        }
    }

    /// Cuts a part of a text into units, and those of more than `most` tokens into smaller ones.
    fn cut(
        self,
        text: &str,
        range: Range<usize>,
        most: usize,
        count: Count,
        pieces: &mut Vec<TextPiece>,
    ) -> Result<()> {
        let mut start = range.start;
        for len in self.lengths(&text[range]) {
            let range = start..start + len;
            start = range.end;
            match (fitting(&text[range.clone()], most, count)?, self.next()) {
                (Some(tokens), _) => pieces.push(TextPiece { range, tokens }),
                (None, Some(level)) => level.cut(text, range, most, count, pieces)?,
                (None, None) => {
                    let tokens = count(&text[range])?;
                    let message = format!("a character has {tokens} tokens, and a part has room for {most}");
                    return Err(Error::new(ErrorKind::InvalidOption, message).hint("allow longer parts"));
                }
            }
        }
        Ok(())
    }
}

/// Returns how many pieces together have at most `limit` tokens. `costs` are their tokens alone,
/// `real` counts the first ones together.
fn most(
    limit: usize,
    costs: &dyn Fn(usize) -> Option<usize>,
    real: &dyn Fn(usize) -> Result<usize>,
) -> Result<usize> {
    let mut taken = 0;
    let mut used = real(0)?;
    loop {
        let (before, mut room) = (taken, limit.saturating_sub(used));
        while let Some(cost) = costs(taken).filter(|cost| *cost <= room) {
            room -= cost;
            taken += 1;
        }
        while taken > before {
            used = real(taken)?;
            if used <= limit {
                break;
            }
            taken -= 1;
        }
        if taken == before {
            return Ok(taken);
        }
    }
}

/// Returns the start of the part that follows `part`, whose pieces are the last ones.
fn overlap_start(
    text: &str,
    part: Range<usize>,
    pieces: &[TextPiece],
    overlap: usize,
    count: Count,
) -> Result<usize> {
    let end = part.end;
    if overlap == 0 {
        return Ok(end);
    }
    // The part as a whole is no overlap.
    let suffix = |pieces: &[TextPiece]| -> Result<usize> {
        let pieces = &pieces[pieces.partition_point(|piece| piece.range.start <= part.start)..];
        let start = |taken: usize| {
            pieces.len().checked_sub(taken).and_then(|i| pieces.get(i)).map_or(end, |p| p.range.start)
        };
        let costs = |i: usize| pieces.len().checked_sub(i + 1).map(|i| pieces[i].tokens);
        most(overlap, &costs, &|taken| count(&text[start(taken)..end])).map(start)
    };
    let at = suffix(pieces)?;
    if 2 * count(&text[at..end])? >= overlap {
        return Ok(at);
    }
    // The sentence before, at its words.
    let before = pieces.iter().rev().find(|piece| piece.range.end <= at);
    let Some(sentence) = before.filter(|piece| piece.range.end > part.start) else { return Ok(at) };
    for level in [Level::Word, Level::Cluster, Level::Character] {
        let mut smaller = Vec::new();
        level.cut(
            text,
            sentence.range.start.max(part.start)..sentence.range.end,
            usize::MAX,
            count,
            &mut smaller,
        )?;
        smaller.extend(pieces.iter().filter(|piece| piece.range.start >= at).cloned());
        let smallest = suffix(&smaller)?;
        if smallest < end {
            return Ok(smallest);
        }
    }
    Ok(end)
}

/// Adds the ranges in characters.
fn in_characters(text: &str, parts: Vec<Range<usize>>) -> Vec<Chunk> {
    let mut bounds: Vec<usize> = parts.iter().flat_map(|part| [part.start, part.end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let (mut at, mut chars) = (0, 0);
    let counted: Vec<usize> = bounds
        .iter()
        .map(|bound| {
            chars += text[at..*bound].chars().count();
            at = *bound;
            chars
        })
        .collect();
    let char_of = |byte: usize| bounds.binary_search(&byte).map_or(0, |i| counted[i]);
    parts.into_iter().map(|bytes| Chunk { chars: char_of(bytes.start)..char_of(bytes.end), bytes }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes in groups of three: a token may end within a character.
    fn thirds(text: &str) -> Result<usize> {
        Ok(text.len().div_ceil(3))
    }

    /// Joined texts have more tokens than each alone, as no tokenizer does so badly.
    fn growing(text: &str) -> Result<usize> {
        Ok(text.chars().count() + text.matches(' ').count().pow(2) / 8)
    }

    /// Words, of which the space in front is a part: together fewer than alone.
    fn words(text: &str) -> Result<usize> {
        Ok(text.split(' ').filter(|word| !word.is_empty()).map(|word| 1 + word.len() / 6).sum())
    }

    fn text() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "Ann called. ",
            "Bob wrote a long letter to nobody! ",
            "\r\n",
            "\n\n",
            " ",
            "word ",
            "e\u{301}",
            "漢字かな。",
            "👩\u{200d}👩\u{200d}👧",
            "🇩🇪🇫🇷",
            "Donaudampfschifffahrt",
            "1.5 ",
            "\u{feff}",
            "ффффф? ",
            "ก็",
        ]);
        prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn parts_cover_the_text_within_the_limit(
            text in text(),
            tokens in 20_usize..60,
            share in 0_usize..=50,
            counter in 0..3,
        ) {
            let count = [thirds, growing, words][counter as usize];
            let options = ChunkOptions { tokens, overlap: tokens * share / 100 };
            let parts = chunks(&text, &options, &count).unwrap();
            let bytes: Vec<_> = parts.iter().map(|part| part.bytes.clone()).collect();
            prop_assert_eq!(bytes[0].start, 0);
            prop_assert_eq!(bytes.last().unwrap().end, text.len());
            for part in &parts {
                // A slice at a character's inside would panic.
                let own = &text[part.bytes.clone()];
                prop_assert!(count(own).unwrap() <= tokens, "{:?}", own);
                prop_assert_eq!(part.chars.start, text[..part.bytes.start].chars().count());
                prop_assert_eq!(part.chars.len(), own.chars().count());
                prop_assert!(!own.is_empty() || text.is_empty());
            }
            for pair in bytes.windows(2) {
                prop_assert!(pair[1].start <= pair[0].end, "a gap");
                prop_assert!(pair[0].start < pair[1].start && pair[0].end < pair[1].end, "no progress");
                let again = &text[pair[1].start..pair[0].end];
                prop_assert!(count(again).unwrap() <= options.overlap, "{:?}", again);
            }
        }

        #[test]
        fn overlaps_are_as_long_as_asked(text in text(), overlap in 8_usize..20) {
            let count = |text: &str| Ok(text.chars().count());
            let parts = chunks(&text, &ChunkOptions { tokens: 40, overlap }, &count).unwrap();
            for pair in parts.windows(2) {
                let again = pair[0].bytes.end - pair[1].bytes.start;
                prop_assert!(again > 0);
                let sentence = text.split_sentence_bounds().map(|s| s.as_ptr() as usize - text.as_ptr() as usize);
                let at_sentence = sentence.into_iter().any(|start| start == pair[1].bytes.start);
                let at_cluster = text.grapheme_indices(true).any(|(start, _)| start == pair[1].bytes.start);
                prop_assert!(at_cluster);
                // It is whole sentences of at least the half, or one more word would be too much.
                let end = pair[0].bytes.end;
                let tokens = count(&text[pair[1].bytes.start..end]).unwrap();
                let words = text.split_word_bound_indices().map(|(start, _)| start);
                let longer = words.take_while(|start| *start < pair[1].bytes.start).last().unwrap_or(0);
                prop_assert!(
                    at_sentence && 2 * tokens >= overlap
                        || longer <= pair[0].bytes.start
                        || count(&text[longer..end]).unwrap() > overlap,
                    "{tokens} of {overlap}"
                );
            }
        }

        /// Where all sentences fit, each part but the last ends at one, and the next would not fit.
        #[test]
        fn parts_are_whole_sentences_and_full(text in text()) {
            let count = |text: &str| Ok(text.chars().count());
            let longest = text.split_sentence_bounds().map(|s| s.chars().count()).max().unwrap_or(1);
            let tokens = longest + 7;
            let parts = chunks(&text, &ChunkOptions { tokens, overlap: 0 }, &count).unwrap();
            let (mut want, mut len) = (vec![0], 0);
            for sentence in text.split_sentence_bounds() {
                let chars = sentence.chars().count();
                if len + chars > tokens {
                    want.push(*want.last().unwrap());
                    len = 0;
                }
                len += chars;
                *want.last_mut().unwrap() += sentence.len();
            }
            prop_assert_eq!(parts.iter().map(|part| part.bytes.end).collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn limits_are_checked() {
        let count = |text: &str| Ok(text.len());
        for (tokens, overlap) in [(0, 0), (10, 6), (10, 10)] {
            assert!(chunks("text", &ChunkOptions { tokens, overlap }, &count).is_err());
        }
        let error = chunks("a👩b", &ChunkOptions { tokens: 3, overlap: 0 }, &count).unwrap_err();
        assert!(error.to_string().contains("a character has 4 tokens"), "{error}");
        let whole = chunks("", &ChunkOptions { tokens: 3, overlap: 1 }, &count).unwrap();
        assert_eq!(whole, [Chunk { bytes: 0..0, chars: 0..0 }]);
        let json =
            serde_json::to_string(&chunks("é", &ChunkOptions { tokens: 2, overlap: 0 }, &count).unwrap());
        assert_eq!(json.unwrap(), r#"[{"bytes":[0,2],"chars":[0,1]}]"#);
    }
}
