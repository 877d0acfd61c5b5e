//! Reasons for rejected tokens, compared with a list of the allowed texts.

use ffwd::matcher::Verdict;
use ffwd::{Compiler, Constraint, TokenId};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;

/// The bytes that can follow `prefix` in one of `texts`, and whether one of them ends there.
fn after(texts: &[Vec<u8>], prefix: &[u8]) -> (Vec<u8>, bool) {
    let mut next: Vec<u8> =
        texts.iter().filter(|t| t.starts_with(prefix)).filter_map(|t| t.get(prefix.len()).copied()).collect();
    next.sort_unstable();
    next.dedup();
    (next, texts.iter().any(|t| t == prefix))
}

#[test]
fn choices_are_explained_as_their_texts_say() {
    // Bytes that are no tokens: `z`, so that one of the choices can never be written.
    let known = TestVocab::new(3, 150, b"z");
    let compiler = Compiler::new(known.vocab.clone());
    let pieces = ["a", "b", "ab", "abc", "\":", "{\"", "\u{e9}", "\u{6f22}", "x", "12", "tru", "e"];
    let mut random = Random::new(21);
    let (mut legal, mut refused) = (0, 0);
    for _ in 0..150 {
        let mut texts: Vec<Vec<u8>> = (0..1 + random.below(5))
            .map(|_| (0..1 + random.below(4)).flat_map(|_| random.pick(&pieces).bytes()).collect())
            .collect();
        let choices = texts.iter().map(|t| String::from_utf8(t.clone()).unwrap()).chain(["az".to_string()]);
        let grammar = compiler.compile(&Constraint::choice(choices).unwrap()).unwrap();
        texts.sort();
        let text = random.pick(&texts).clone();
        let prefix = &text[..random.below(text.len() + 1)];
        let mut matcher = grammar.matcher();
        for &byte in prefix {
            // What would be forced behind some bytes is what is forced once they are written.
            let behind = matcher.forced_bytes_after(&[byte], 100);
            let token = known.tokens.iter().position(|t| t == &[byte]).unwrap();
            matcher.accept_token(token as TokenId).unwrap();
            assert_eq!(behind, Some(matcher.forced_bytes()));
            assert_eq!(grammar.matcher().forced_bytes_after(b"zz", 100), None);
        }
        for (id, token) in known.tokens.iter().enumerate() {
            if token.is_empty() {
                continue;
            }
            let fits = (0..=token.len())
                .rev()
                .find(|&n| texts.iter().any(|t| t.starts_with(&[prefix, &token[..n]].concat())))
                .expect("nothing always fits");
            let (expected, may_end) = after(&texts, &[prefix, &token[..fits]].concat());
            let found = matcher.explain(id as TokenId);
            assert_eq!((found.fits, &found.expected, found.may_end), (fits, &expected, may_end));
            let verdict = token.get(fits).map_or(Verdict::Legal, |&b| Verdict::Byte(b));
            assert_eq!(found.verdict, verdict, "{token:?} after {prefix:?} of {texts:?}");
            assert_eq!(found.verdict == Verdict::Legal, matcher.allows(id as TokenId));
            assert_eq!(found, matcher.explain_bytes(token));
            let firsts: Vec<u8> =
                found.examples.iter().filter_map(|&t| known.tokens[t as usize].first().copied()).collect();
            assert_eq!(firsts, expected, "one example for each byte");
            if fits == token.len() { legal += 1 } else { refused += 1 }
        }
        assert_eq!(matcher.explain_bytes(b"z").verdict, Verdict::Unspellable(b'z'));
        assert_eq!(matcher.num_accepted(), prefix.len());
    }
    assert!(legal > 100 && refused > 1000, "{legal} {refused}");
}

#[test]
fn ends_special_tokens_and_paths() {
    let known = TestVocab::new(3, 150, &[]);
    let compiler = Compiler::new(known.vocab.clone());
    let schema = r#"{"type":"object","properties":{"a":{"type":"array","items":{"enum":[10,12]}}},"required":["a"],
        "additionalProperties":false}"#;
    let grammar = compiler.compile(&Constraint::json_schema(schema).unwrap()).unwrap();
    let mut matcher = grammar.matcher();
    let found = matcher.explain_bytes(b"{\"a\":[10,13");
    assert_eq!((found.verdict, found.fits), (Verdict::Byte(b'3'), 10));
    assert_eq!((found.expected, found.may_end, found.path.as_str()), (b"02".to_vec(), false, "/a/1"));

    let (end, pad) = (known.eos[0], known.eos[1] + 1);
    assert_eq!(matcher.explain(end).verdict, Verdict::Unfinished);
    assert_eq!(matcher.explain(end).expected, b"{");
    assert_eq!(matcher.explain(pad).verdict, Verdict::Special);
    assert_eq!(matcher.explain(u32::MAX).verdict, Verdict::Unknown);
    for byte in b"{\"a\":[]}" {
        matcher.accept_token(TokenId::from(*byte)).unwrap();
    }
    let found = matcher.explain(end);
    assert_eq!((found.verdict, found.may_end), (Verdict::Legal, true));
    assert_eq!(found.examples, known.eos);
    let found = matcher.explain(TokenId::from(b','));
    assert_eq!((found.verdict, found.fits, found.expected.len()), (Verdict::Byte(b','), 0, 0));
    matcher.accept_token(end).unwrap();
    assert_eq!(matcher.explain(TokenId::from(b'{')).verdict, Verdict::Ended);
    assert_eq!(matcher.explain_bytes(b"{").verdict, Verdict::Ended);
}
