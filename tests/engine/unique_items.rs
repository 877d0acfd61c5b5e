//! Arrays with `uniqueItems`: random walks through masks never get stuck, and another validator
//! accepts their outputs.

use std::collections::BTreeSet;

use ffwd::{Compiler, Constraint, KeyOrder, Policy, Vocabulary};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, row};

use super::examples::constraints;

/// Tokens before a walk heads for its end, and before it is given up.
const FREE: usize = 40;
const LONGEST: usize = 600;

/// A random token of a mask, rather one that ends something once `ends` says so.
fn draw(row: &[u32], words: &TestVocab, ends: bool, random: &mut Random) -> Option<u32> {
    let set = |t: u32| row[t as usize / 32] >> (t % 32) & 1 == 1 && !words.eos.contains(&t);
    if ends {
        let wanted: [&[u8]; 9] = [b"]", b"}", b"\"", b"1", b"0", b"true", b"null", b"f", b","];
        let id = |bytes: &[u8]| words.tokens.iter().position(|t| t == bytes).map(|t| t as u32);
        if let Some(token) =
            wanted.iter().filter_map(|b| id(b)).find(|&t| set(t)).filter(|_| random.chance(80))
        {
            return Some(token);
        }
    }
    let legal: Vec<u32> = (0..words.tokens.len() as u32).filter(|&t| set(t)).collect();
    let structural: Vec<u32> = legal
        .iter()
        .copied()
        .filter(|&t| words.tokens[t as usize].iter().all(|b| b"\"{}[],:0123456789truefalsn.".contains(b)))
        .collect();
    let list = if structural.is_empty() || random.chance(20) { legal } else { structural };
    if list.is_empty() { None } else { Some(*random.pick(&list)) }
}

/// All letters of schemas whose values can be used up, and tokens that end a value and go on.
fn tokens_over_ends() -> Vec<Vec<u8>> {
    let joined = [
        "\",",
        "\",\"",
        "a\",\"b\",",
        "[\"a\",",
        "\"]",
        "\"],[",
        "\":true,",
        "\":true,\"",
        "a\":true,\"b\":",
        "true",
        "false",
        "null",
        "true,",
        "ab",
        "1,",
    ];
    let letters = b"\"[]{},:abctruefalsnxl1".iter().map(|&b| vec![b]);
    let mut tokens: Vec<Vec<u8>> = letters.chain(joined.iter().map(|t| t.as_bytes().to_vec())).collect();
    tokens.sort();
    tokens.dedup();
    tokens.push(Vec::new());
    tokens
}

#[test]
fn masks_know_when_all_values_are_used_up() {
    let tokens = tokens_over_ends();
    let end = tokens.len() as u32 - 1;
    let compiler = Compiler::new(Vocabulary::from_token_bytes(&tokens, &[], vec![end]).unwrap());
    let mut random = Random::new(5);
    let (mut checked, mut used_up) = (0, 0);
    for schema in &constraints("json_schema", "finite_items") {
        let grammar = compiler.compile(&Constraint::json_schema(schema).unwrap()).unwrap();
        for _ in 0..60 {
            let (mut matcher, mut text) = (grammar.matcher(), Vec::new());
            for _ in 0..30 {
                let mut masked = row(&mut matcher);
                masked.remove(&end);
                let legal: BTreeSet<u32> =
                    (0..end).filter(|&t| matcher.fork().accept_token(t).is_ok()).collect();
                assert_eq!(masked, legal, "{schema}: {:?}", String::from_utf8_lossy(&text));
                checked += 1;
                used_up += usize::from(!legal.iter().any(|&t| tokens[t as usize].contains(&b',')));
                if legal.is_empty() {
                    assert!(matcher.is_accepting(), "{schema}");
                    break;
                }
                // Rather go on than end.
                let goes_on = |t: &&u32| !tokens[**t as usize].iter().any(|b| b"]}".contains(b));
                let rather: Vec<u32> = legal.iter().filter(goes_on).copied().collect();
                let list =
                    if rather.is_empty() || random.chance(10) { legal.into_iter().collect() } else { rather };
                let token = *random.pick(&list);
                text.extend_from_slice(&tokens[token as usize]);
                matcher.accept_token(token).unwrap();
            }
        }
    }
    assert!(checked > 2_000 && used_up > 200, "{checked} {used_up}");
}

#[test]
fn walks_end_in_arrays_of_different_items() {
    let words = TestVocab::new(2, 300, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    // Numbers that the validator's floats tell apart.
    let base = Policy { max_integer_digits: 4, max_fraction_digits: 2, ..Policy::default() };
    let any_order = Policy { key_order: KeyOrder::Any, ..base.clone() };
    let (mut ended, mut walks, mut long) = (0, 0, 0);
    for schema in &constraints("json_schema", "unique_items") {
        let value: serde_json::Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&value).unwrap();
        for policy in [&base, &any_order] {
            let constraint = Constraint::builder().policy(policy.clone()).json_schema(schema).unwrap();
            let grammar = compiler.compile(&constraint).unwrap_or_else(|e| panic!("{schema}: {e}"));
            for seed in 0..12 {
                let mut random = Random::new(seed);
                let (mut matcher, mut text) = (grammar.matcher(), Vec::new());
                let mut row = vec![0; words.vocab.bitmask_words()];
                walks += 1;
                for step in 0..LONGEST {
                    matcher.fill_bitmask(&mut row);
                    let accepting = matcher.is_accepting();
                    let token = draw(&row, &words, step > FREE, &mut random);
                    if accepting && (token.is_none() || step > FREE || random.chance(30)) {
                        let shown = String::from_utf8_lossy(&text).into_owned();
                        let written =
                            serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{shown}: {e}"));
                        assert!(validator.is_valid(&written), "{schema}\n{shown}");
                        (ended, long) = (ended + 1, long + usize::from(text.len() > 40));
                        break;
                    }
                    let token = token.unwrap_or_else(|| {
                        panic!("{schema}\na dead end after {}", String::from_utf8_lossy(&text))
                    });
                    matcher.accept_token(token).unwrap();
                    text.extend_from_slice(&words.tokens[token as usize]);
                }
            }
        }
    }
    assert!(ended * 10 > walks * 8, "only {ended} of {walks} walks ended");
    assert!(long * 10 > walks, "only {long} walks of {walks} wrote more than a few items");
}
