//! Tokens that contain whole JSON strings.
//!
//! An object may not repeat a name. A token that neither begins nor ends inside a name can repeat
//! it only if it contains the name with both quotation marks. It can write the name twice only if
//! it contains a quotation mark, a comma and two more quotation marks. Real vocabularies have few
//! such tokens (3 of the 128,256 of Llama 3, and 64 more that can repeat an array item). The checks
//! they need are made for them alone.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::TokenId;

/// Whole strings inside tokens, and the tokens that can repeat a name or an item.
pub(super) struct StringTokens {
    /// Every text between two quotation marks of a token, with the marks.
    pub strings: Arc<FxHashSet<Box<[u8]>>>,
    /// Tokens that can contain the end of a name and then the whole name.
    pub names: Vec<TokenId>,
    /// The other tokens, which can contain the end of an array item and then the whole item.
    pub items: Vec<TokenId>,
    /// Tokens that can end an array item and begin another, or begin one, in any way.
    pub separators: Separators,
}

/// Tokens with a comma, in id order.
#[derive(Default)]
pub(crate) struct Separators {
    /// All of them.
    pub any: Vec<TokenId>,
    /// Those with a quotation mark before the comma; inside a string the others are all text.
    pub quoted: Vec<TokenId>,
    /// Those with an opening bracket before the comma, and those with a quotation mark before that
    /// bracket.
    pub opening: [Vec<TokenId>; 2],
    /// Tokens with an opening bracket.
    pub brackets: Vec<TokenId>,
}

impl Separators {
    fn add(&mut self, bytes: &[u8], token: TokenId) {
        let position = |b: u8, from: usize| bytes[from..].iter().position(|&c| c == b).map(|at| from + at);
        let (last, quote) = (bytes.iter().rposition(|&b| b == b','), position(b'"', 0));
        let bracket = position(b'[', 0);
        self.brackets.extend(bracket.map(|_| token));
        let Some(last) = last else { return };
        self.any.push(token);
        self.quoted.extend(quote.filter(|&quote| quote < last).map(|_| token));
        self.opening[0].extend(bracket.filter(|&at| at < last).map(|_| token));
        let bracket = quote.and_then(|quote| position(b'[', quote));
        self.opening[1].extend(bracket.filter(|&at| at < last).map(|_| token));
    }
}

impl StringTokens {
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], TokenId)>) -> Self {
        let (mut strings, mut names, mut items) = (FxHashSet::default(), Vec::new(), Vec::new());
        let (mut quotes, mut separators) = (Vec::new(), Separators::default());
        for (bytes, token) in tokens {
            quotes.clear();
            separators.add(bytes, token);
            quotes.extend(bytes.iter().enumerate().filter(|b| *b.1 == b'"').map(|b| b.0));
            for (i, &from) in quotes.iter().enumerate() {
                strings.extend(quotes[i + 1..].iter().map(|&to| Box::from(&bytes[from..=to])));
            }
            let name = match quotes[..] {
                [first, .., before_last, _] => bytes[first..before_last].contains(&b','),
                _ => false,
            };
            // The item after a comma can equal the one before it only if the last byte of that one
            // occurs in it.
            let commas = (1..bytes.len()).filter(|&c| bytes[c] == b',');
            let item = commas.clone().any(|c| bytes[c + 1..].contains(&bytes[c - 1]));
            if name {
                names.push(token);
            } else if item {
                items.push(token);
            }
        }
        StringTokens { strings: Arc::new(strings), names, items, separators }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_repetitions() {
        let tokens = ["a", "\"", "\"a\"", "\",\"", "x\":1,\"x\"", "\"\"\",", "\",\"a\":\"", "1,2", "11,1"];
        let quoted = StringTokens::new(tokens.iter().zip(0..).map(|(t, i)| (t.as_bytes(), i)));
        assert_eq!(quoted.names, [4, 6]);
        assert_eq!(quoted.items, [3, 8]);
        for text in ["\"a\"", "\",\"", "\":1,\"", "\"x\"", "\"\"", "\"\"\"", "\":\""] {
            assert!(quoted.strings.contains(text.as_bytes()), "{text}");
        }
        assert!(!quoted.strings.contains(&b"\"b\""[..]));
    }

    #[test]
    fn commas_behind_quotes_and_brackets() {
        let tokens = [",", "a,", "\",", ",\"", "[1,", "\"[,", "[", "],[\""];
        let Separators { any, quoted, opening, brackets } =
            StringTokens::new(tokens.iter().zip(0..).map(|(t, i)| (t.as_bytes(), i))).separators;
        assert_eq!(any, [0, 1, 2, 3, 4, 5, 7]);
        assert_eq!(quoted, [2, 5]);
        assert_eq!(opening, [vec![4, 5], vec![5]]);
        assert_eq!(brackets, [4, 5, 6, 7]);
    }
}
