//! Labels as machines over tokens, against the enumeration of all their outputs. No model.

use std::collections::{BTreeMap, BTreeSet};

use ffwd::constraint::token_machine::{Labels, Lead, Levels};
use ffwd::{Compiler, Constraint, ErrorKind, TokenId, Vocabulary};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::row;
use serde_json::json;

fn embedded() -> Vocabulary {
    let json = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/crates/runtime/assets/extract-5m/tokenizer.json"
    ));
    Vocabulary::from_bytes(json).unwrap().with_eos(vec![2])
}

/// Labels of which some begin others.
const WORDS: &str = "sport|sports|sport science|Sport|AI|AI ethics|A|größe|größer|日本|日本語|emoji 😀|😀|\
    x-ray|x|e-mail|mail|don't|don|C++|C|1984|19|the|them";

/// All orders of up to `most` different labels out of `n`, at least `least`.
fn selections(n: usize, least: usize, most: usize, repeats: bool) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    let mut todo: Vec<Vec<usize>> = vec![vec![]];
    while let Some(some) = todo.pop() {
        if some.len() >= least {
            all.push(some.clone());
        }
        if some.len() < most {
            let more = (0..n).filter(|l| repeats || !some.contains(l));
            todo.extend(more.map(|l| [&some[..], &[l]].concat()));
        }
    }
    all
}

#[test]
fn label_outputs_are_those_of_the_enumeration() {
    let vocab = embedded();
    let compiler = Compiler::new(vocab.clone());
    let words: Vec<&str> = WORDS.split('|').collect();
    let mut states = 0;
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut labels: Vec<&str> = Vec::new();
        for _ in 0..1 + random.below(4) {
            let label = *random.pick(&words);
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let (least, most) = (1 + random.below(labels.len().min(2)), 1 + random.below(3));
        let most = most.max(least);
        let repeats = random.chance(25);
        let separator = *random.pick(&[", ", "; ", "\n", " | ", "|", " / ", ","]);
        let several = random.chance(70);
        let lead = if random.chance(50) { Lead::Space } else { Lead::Nothing };
        let mut set = Labels::new(labels.iter().copied()).lead(lead);
        let (mut least, mut most) = (least, most);
        if several {
            set = set.several(separator).at_least(least as u32).at_most(most as u32);
            if repeats {
                set = set.with_repeats();
            }
        } else {
            (least, most) = (1, 1);
        }
        let front = if lead == Lead::Space { " " } else { "" };
        let trie = set.trie(&vocab).unwrap();
        // The reference: each whole output, encoded at once.
        let mut outputs: BTreeMap<Vec<TokenId>, Vec<usize>> = BTreeMap::new();
        for some in selections(labels.len(), least, most, several && repeats) {
            let texts: Vec<&str> = some.iter().map(|&l| labels[l]).collect();
            let text = format!("{front}{}", texts.join(separator));
            outputs.insert(vocab.encode(&text).unwrap(), some);
        }
        let grammar = compiler.compile(&Constraint::labels(&set)).unwrap();
        assert!(trie.warnings().is_empty(), "none of these separators is merged: {:?}", trie.warnings());
        // What may follow each beginning of an output.
        let mut next: BTreeMap<&[TokenId], BTreeSet<TokenId>> = BTreeMap::new();
        for tokens in outputs.keys() {
            for at in 0..tokens.len() {
                next.entry(&tokens[..at]).or_default().insert(tokens[at]);
            }
            next.entry(&tokens[..]).or_default().insert(2);
        }
        for (tokens, legal) in &next {
            let mut matcher = grammar.matcher();
            assert_eq!(matcher.validate_tokens(tokens), tokens.len());
            tokens.iter().for_each(|&t| matcher.accept_token(t).unwrap());
            assert_eq!(
                &row(&mut matcher),
                legal,
                "{labels:?} {separator:?} after {:?}",
                vocab.decode(tokens)
            );
            let complete = trie.parse(tokens).is_some_and(|found| {
                let different: BTreeSet<usize> = found.iter().copied().collect();
                found.len() >= least && (repeats || different.len() == found.len())
            });
            assert_eq!(complete, outputs.contains_key(*tokens));
            states += 1;
            // A completion completes, and a forced run is what every output does.
            let mut behind = matcher.fork();
            let completion = matcher.token_completion().unwrap();
            assert!(completion.iter().all(|&t| behind.accept_token(t).is_ok()) && behind.is_accepting());
            let shortest = outputs.keys().filter(|o| o.starts_with(tokens)).map(|o| o.len() - tokens.len());
            let shortest = shortest.min().unwrap();
            if least == 1 {
                assert_eq!(completion.len(), shortest, "the nearest end");
            } else {
                assert!(completion.len() >= shortest);
            }
            let forced = matcher.forced_tokens();
            let mut here = tokens.to_vec();
            for &t in &forced {
                assert_eq!(next[&here[..]], BTreeSet::from([t]));
                here.push(t);
            }
            assert!(next[&here[..]].len() > 1 || outputs.contains_key(&here), "not longer than it can be");
        }
        for (tokens, some) in &outputs {
            assert_eq!(trie.parse(tokens).as_ref(), Some(some));
        }
        for (label, text) in labels.iter().enumerate() {
            assert_eq!(vocab.decode(&trie.tokens(label)), format!("{front}{text}").as_bytes());
        }
    }
    assert!(states > 3000, "{states}");
}

#[test]
fn separators_that_the_tokenizer_merges_are_told_and_give_the_same_texts() {
    let vocab = embedded();
    let compiler = Compiler::new(vocab.clone());
    let mut told = 0;
    for separator in ["and", "e", "o", "ing"] {
        let labels = ["law", "tax", "mistrust", "mail"];
        let set = Labels::new(labels).several(separator).at_most(3);
        let grammar = compiler.compile(&Constraint::labels(&set)).unwrap();
        let texts: BTreeSet<Vec<u8>> = selections(labels.len(), 1, 3, false)
            .into_iter()
            .map(|some| {
                let texts: Vec<&str> = some.iter().map(|&l| labels[l]).collect();
                format!(" {}", texts.join(separator)).into_bytes()
            })
            .collect();
        told += usize::from(grammar.warnings().iter().any(|w| w.message().contains(separator)));
        // Every output, by going through all states.
        let mut reached = BTreeSet::new();
        let mut todo = vec![grammar.matcher()];
        while let Some(mut matcher) = todo.pop() {
            for token in row(&mut matcher) {
                let mut next = matcher.fork();
                next.accept_token(token).unwrap();
                if token == 2 {
                    reached.insert(vocab.decode(&next.tokens()));
                } else {
                    todo.push(next);
                }
            }
        }
        assert_eq!(reached, texts, "{separator:?}");
    }
    assert!(told > 0);
}

#[test]
fn labels_keep_their_state_through_rollback_and_forks() {
    let vocab = embedded();
    let labels = Labels::new(WORDS.split('|')).several("; ").at_most(6).at_least(2);
    let grammar = Compiler::new(vocab).compile(&Constraint::labels(&labels)).unwrap();
    let mut random = Random::new(11);
    let mut matcher = grammar.matcher();
    for _ in 0..1500 {
        let legal: Vec<TokenId> = row(&mut matcher).into_iter().collect();
        match random.below(8) {
            0 => matcher.rollback(random.below(matcher.num_accepted() + 1)),
            1 => matcher = matcher.fork(),
            _ => {
                let token = *random.pick(&legal);
                matcher.accept_token(token).unwrap();
                if token == 2 {
                    assert!(matcher.is_terminated() && row(&mut matcher) == BTreeSet::from([2]));
                    matcher.rollback(random.below(matcher.num_accepted() + 1) + 1);
                }
            }
        }
        // Whoever arrives by the same tokens finds the same.
        let mut fresh = grammar.matcher();
        matcher.tokens().iter().for_each(|&t| fresh.accept_token(t).unwrap());
        assert_eq!(row(&mut matcher), row(&mut fresh));
        assert_eq!(matcher.is_accepting(), fresh.is_accepting());
    }
}

#[test]
fn tables_that_are_full_are_made_anew() {
    let vocab = embedded();
    let labels = Labels::new((0..60).map(|i| format!("label {i}"))).several(", ");
    let bounded = Compiler::new(vocab.clone()).with_table_limit(50_000).with_replicas(1);
    let grammar = bounded.compile(&Constraint::labels(&labels)).unwrap();
    let free = Compiler::new(vocab).compile(&Constraint::labels(&labels)).unwrap();
    let mut random = Random::new(3);
    for _ in 0..40 {
        let (mut matcher, mut reference) = (grammar.matcher(), free.matcher());
        for _ in 0..60 {
            let legal: Vec<TokenId> = row(&mut reference).into_iter().filter(|&t| t != 2).collect();
            assert_eq!(row(&mut matcher).into_iter().filter(|&t| t != 2).collect::<Vec<_>>(), legal);
            if legal.is_empty() {
                break;
            }
            let token = *random.pick(&legal);
            matcher.accept_token(token).unwrap();
            reference.accept_token(token).unwrap();
        }
    }
    let (kept, all) = (grammar.memory(), free.memory());
    assert!(kept.states + kept.masks + kept.transitions < all.states + all.masks + all.transitions);
}

#[test]
fn faults_of_labels_name_the_label() {
    let vocab = embedded();
    let says = |labels: Labels, kind: ErrorKind, parts: &[&str]| {
        let error = labels.trie(&vocab).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(parts.iter().all(|p| error.to_string().contains(p)), "{error}");
        let constraint = Constraint::labels(&labels);
        assert_eq!(Compiler::new(vocab.clone()).compile(&constraint).err().unwrap().kind(), kind);
    };
    let none: [&str; 0] = [];
    says(Labels::new(none), ErrorKind::InvalidLabels, &["no labels"]);
    says(Labels::new(["a", "b", "a"]), ErrorKind::InvalidLabels, &["\"a\"", "1 and 3"]);
    says(Labels::new(["a", ""]), ErrorKind::InvalidLabels, &["label 2 is empty"]);
    says(Labels::new([" a"]), ErrorKind::InvalidLabels, &["white space"]);
    says(Labels::new(["a".repeat(5000)]), ErrorKind::TooComplex, &["label 1", "5000", "4096"]);
    let many: Vec<String> = (0..1_000_001).map(|i| i.to_string()).collect();
    says(Labels::new(many), ErrorKind::TooComplex, &["1000001 labels", "1000000"]);
    says(Labels::new(["a, b", "c"]).several(", "), ErrorKind::InvalidLabels, &["\"a, b\"", "separator"]);
    says(Labels::new(["a"]).several(""), ErrorKind::InvalidOption, &["separator"]);
    says(Labels::new(["a", "b"]).several(", ").at_least(3), ErrorKind::Unsatisfiable, &["3 labels"]);
    says(Labels::new(["a"]).several(", ").at_least(2).at_most(1), ErrorKind::InvalidOption, &["none at all"]);
    says(Labels::new(["a >  > b"]).paths(" > ", Levels::Listed), ErrorKind::InvalidLabels, &["empty part"]);
    // The beginning of the separator may not be the continuation of a label.
    says(Labels::new(["a", "a,b"]).several(", "), ErrorKind::InvalidLabels, &["\"a\"", "\",\"", "\"a,b\""]);

    let no_end = vocab.clone().with_eos(vec![]);
    let error = Labels::new(["sport", "sport science"]).trie(&no_end).err().unwrap().to_string();
    assert!(error.contains("no end token") && error.contains("\"sport\""), "{error}");
    assert!(Labels::new(["sport", "law"]).trie(&no_end).is_ok());
    assert!(Labels::new(["sport", "law"]).several(", ").trie(&no_end).is_err());
    assert!(Labels::new(["sport", "law"]).several(", ").at_least(2).trie(&no_end).is_ok());
    assert!(Labels::new(["sport", "law"]).several(", ").at_most(1).trie(&no_end).is_ok());
}

#[test]
fn hierarchies_have_the_levels_that_are_asked_for() {
    let vocab = embedded();
    let listed = ["Technology > AI > NLP", "Technology > AI", "Sport", "Technology > Law"];
    let labels = |levels| {
        let trie = Labels::new(listed).paths(" > ", levels).trie(&vocab).unwrap();
        assert_eq!(trie.path_separator(), Some(" > "));
        trie.labels().to_vec()
    };
    assert_eq!(labels(Levels::Listed), listed);
    assert_eq!(labels(Levels::Leaves), ["Technology > AI > NLP", "Sport", "Technology > Law"]);
    assert_eq!(
        labels(Levels::All),
        ["Technology", "Technology > AI", "Technology > AI > NLP", "Sport", "Technology > Law"]
    );
    let tree = r#"{"Technology": {"AI": ["NLP"], "Law": null}, "Sport": []}"#;
    let trie = Labels::from_tree(tree, " > ").unwrap().trie(&vocab).unwrap();
    assert_eq!(trie.labels(), ["Technology > AI > NLP", "Technology > Law", "Sport"]);
}

/// A tokenizer of single characters with one longer token, in the manner of Llama 2: spaces are
/// U+2581, and one is put in front of every text.
fn sentencepiece(more: &[serde_json::Value]) -> Vocabulary {
    let pieces = ["\u{2581}", "\u{2581}s", "s", "p", "o", "r", "t", "l", "a", "w", ":", "\n", ",", "</s>"];
    let vocab: serde_json::Map<String, serde_json::Value> =
        pieces.iter().enumerate().map(|(i, p)| (p.to_string(), json!(i))).collect();
    let mut normalizers = vec![
        json!({"type": "Prepend", "prepend": "\u{2581}"}),
        json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}),
    ];
    normalizers.extend_from_slice(more);
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "added_tokens": [{"id": 13, "content": "</s>", "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false}],
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab,
            "merges": ["\u{2581} s"]},
    });
    Vocabulary::from_bytes(file.to_string().as_bytes()).unwrap()
}

#[test]
fn tokenizers_that_put_a_space_in_front_are_seen_through() {
    let vocab = sentencepiece(&[]);
    let id = |piece: &str| vocab.token_id(piece).unwrap();
    // Alone the tokenizer would write two spaces; behind a text it writes one.
    assert_eq!(vocab.decode(&vocab.encode(" sport").unwrap()), b"  sport");
    let trie = Labels::new(["sport", "law"]).trie(&vocab).unwrap();
    assert_eq!(trie.lead(), " ");
    assert_eq!(trie.tokens(0), [id("\u{2581}s"), id("p"), id("o"), id("r"), id("t")]);
    assert_eq!(trie.tokens(1), [id("\u{2581}"), id("l"), id("a"), id("w")]);
    let trie = Labels::new(["sport", "law"]).lead(Lead::Nothing).trie(&vocab).unwrap();
    assert_eq!(trie.tokens(0), [id("s"), id("p"), id("o"), id("r"), id("t")]);
    let trie = Labels::new(["sport", "law"]).several(",").trie(&vocab).unwrap();
    assert_eq!(trie.parse(&vocab.encode("law,sport").unwrap()), Some(vec![1, 0]));

    let error = Labels::new(["law", "trias"]).trie(&vocab).err().unwrap();
    assert!(
        error.kind() == ErrorKind::Tokenizer && error.to_string().contains("\"trias\" (number 2)"),
        "{error}"
    );
    let lower = sentencepiece(&[json!({"type": "Lowercase"})]);
    let error = Labels::new(["law", "Sport"]).trie(&lower).err().unwrap().to_string();
    assert!(error.contains("\"Sport\" (number 2) back, but \"  sport\""), "{error}");
}

#[test]
fn ten_thousand_labels_are_proved_and_walked() {
    let vocab = embedded();
    let labels: Vec<String> =
        (0..10_000).map(|i| format!("Group {} > Part {} > Item {i}", i % 10, i % 100)).collect();
    let set = Labels::new(labels.clone()).paths(" > ", Levels::All);
    let trie = set.trie(&vocab).unwrap();
    assert_eq!(trie.len(), 10_000 + 100 + 10);
    let grammar = Compiler::new(vocab.clone()).compile(&Constraint::labels(&set)).unwrap();
    for label in labels.iter().step_by(501) {
        let mut matcher = grammar.matcher();
        let tokens = vocab.encode(&format!(" {label}")).unwrap();
        tokens.iter().for_each(|&t| matcher.accept_token(t).unwrap());
        assert!(matcher.is_accepting());
        assert_eq!(trie.parse(&tokens).map(|l| trie.labels()[l[0]].as_str()), Some(label.as_str()));
    }
}
