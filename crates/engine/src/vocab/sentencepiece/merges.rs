//! Converts the scores of SentencePiece pieces to ranked merges for byte-pair encoding.
//!
//! SentencePiece joins, of all neighbours whose joined text is a piece, those with the highest
//! score, and of equal scores the leftmost. Tokenizers with merges join the pair with the lowest
//! rank. Both do the same under two conditions. First, every division of a piece into two pieces is
//! a merge, ranked by the piece's score. Second, among the divisions of one piece, of two that
//! overlap the left one ranks first. Pieces with the same score have no ranks, except runs of one
//! character, such as spaces.
//!
//! # Cost
//!
//! The sum of the squared lengths of the pieces.
//!
//! # Alternatives considered
//!
//! Reading the scores as those of a unigram model was rejected: that gives other tokens.

use rustc_hash::FxHashSet;

use crate::error::{Error, ErrorKind, Result};

/// Limit of the work: the sum of the squared lengths of all pieces in bytes.
const MAX_WORK: u64 = 1 << 30;
/// Maximum number of bytes of all merges together.
const MAX_BYTES: usize = 1 << 26;

/// A piece of ordinary text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// The text in the alphabet of the tokenizer.
    pub text: &'a str,
    /// Its score. Of two pieces that can be joined, the one with the higher score is joined first.
    pub score: f64,
}

/// Names in a file of the lists that pieces come from, for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListNames<'a> {
    /// Name of the list of texts.
    pub pieces: &'a str,
    /// Name of the list of scores.
    pub scores: &'a str,
}

/// Returns the merges in the order of their ranks.
///
/// # Errors
/// Returns an error if no ranks are equivalent to the scores: two pieces have the same score, or a
/// piece contains a character that is no piece. Also if a score is NaN, or the pieces are too long.
pub(crate) fn merges(pieces: &[Piece], names: ListNames) -> Result<Vec<(String, String)>> {
    let work = pieces.iter().map(|p| (p.text.len() as u64).saturating_pow(2)).fold(0, u64::saturating_add);
    if work > MAX_WORK {
        let message = format!(
            "the pieces of `{}` are too long to be cut: {work} steps, the limit is {MAX_WORK}",
            names.pieces
        );
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    let known: FxHashSet<&str> = pieces.iter().map(|p| p.text).collect();
    let mut made: Vec<(&Piece, Vec<usize>)> = Vec::new();
    let mut bytes = 0;
    for piece in pieces {
        let cuts = cuts(piece.text, &known, names)?;
        bytes += cuts.len() * piece.text.len();
        if bytes > MAX_BYTES {
            let message =
                format!("the merges of `{}` are more than the limit of {MAX_BYTES} bytes", names.pieces);
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        if piece.score.is_nan() {
            let message = format!("`{}` has no number for `{}`", names.scores, piece.text.escape_debug());
            return Err(Error::new(ErrorKind::Tokenizer, message));
        }
        if !cuts.is_empty() {
            made.push((piece, cuts));
        }
    }
    made.sort_by(|a, b| b.0.score.total_cmp(&a.0.score).then_with(|| b.0.text.len().cmp(&a.0.text.len())));
    let unordered =
        |w: &&[(&Piece, Vec<usize>)]| w[0].0.score == w[1].0.score && !are_runs(w[0].0.text, w[1].0.text);
    if let Some(pair) = made.windows(2).find(unordered) {
        let (a, b) = (pair[0].0.text.escape_debug(), pair[1].0.text.escape_debug());
        return Err(unsupported(format!("the same score for `{a}` and `{b}` in `{}`", names.scores)));
    }
    let split = |text: &str, at: usize| (text[..at].to_owned(), text[at..].to_owned());
    Ok(made.iter().flat_map(|(p, cuts)| cuts.iter().map(|&at| split(p.text, at))).collect())
}

/// Returns the positions at which a piece divides into two pieces, in the order of their ranks.
///
/// Two divisions overlap if the right side of one is the left side of the other: in `x y z` with
/// `xy` and `yz` both this piece. Then the division after `x` is further left and must come first.
/// This is the case if the text after `x` is also a prefix of the piece. Such divisions come first,
/// those with the longer left side before the others.
///
/// Repetitions of one text would need both orders, `aaa` as `a aa` and `aa a`. There the longer
/// part was joined first and is on the left. No text is known to show this order, and random
/// vocabularies gave none: joining from the left rarely leaves such neighbours.
fn cuts(text: &str, known: &FxHashSet<&str>, names: ListNames) -> Result<Vec<usize>> {
    let mut cuts = Vec::new();
    for (at, _) in text.char_indices().skip(1) {
        let (left, right) = text.split_at(at);
        let (has_left, has_right) = (known.contains(left), known.contains(right));
        if has_left && has_right {
            cuts.push(at);
        } else if (has_left || is_char(left)) && (has_right || is_char(right)) {
            let (text, alone) = (text.escape_debug(), if has_left { right } else { left }.escape_debug());
            let pieces = names.pieces;
            return Err(unsupported(format!("the piece `{text}` of `{pieces}` without one for `{alone}`")));
        }
    }
    let repeats = |at: usize| text.starts_with(&text[at..]);
    cuts.sort_by_key(|&at| (!repeats(at), std::cmp::Reverse(at)));
    Ok(cuts)
}

/// True if both are repetitions of one character. Of such pieces with the same score the leftmost
/// join always grows the piece at the left, as if longer ones ranked first.
fn are_runs(a: &str, b: &str) -> bool {
    let first = a.chars().next();
    a.chars().chain(b.chars()).all(|c| Some(c) == first)
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

fn is_char(text: &str) -> bool {
    text.chars().nth(1).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[(&str, f64)]) -> Result<Vec<String>> {
        let pieces: Vec<Piece> = list.iter().map(|&(text, score)| Piece { text, score }).collect();
        Ok(merges(&pieces, ListNames { pieces: "pieces", scores: "scores" })?
            .into_iter()
            .map(|(a, b)| format!("{a} {b}"))
            .collect())
    }

    #[test]
    fn every_cut_is_a_merge_in_the_order_of_the_scores() {
        let got = of(&[("a", -9.0), ("b", -8.0), ("ab", -2.0), ("aba", -1.0), ("ba", -3.0)]).unwrap();
        assert_eq!(got, ["ab a", "a ba", "a b", "b a"]);
    }

    #[test]
    fn what_ranks_cannot_do_is_refused() {
        let kind = |list: &[(&str, f64)]| of(list).unwrap_err().kind();
        let a_and_b = [("a", 0.0), ("b", 0.0)];
        assert_eq!(kind(&[a_and_b[0], a_and_b[1], ("ab", -1.0), ("ba", -1.0)]), ErrorKind::Unsupported);
        assert_eq!(kind(&[a_and_b[0], ("ab", -1.0)]), ErrorKind::Unsupported);
        assert_eq!(kind(&[a_and_b[0], ("aa", f64::NAN)]), ErrorKind::Tokenizer);
        let long = "a".repeat(1 << 16);
        assert_eq!(kind(&[a_and_b[0], (&long, -1.0)]), ErrorKind::TooComplex);
        assert!(of(&a_and_b).unwrap().is_empty(), "single characters need no scores");
    }
}
