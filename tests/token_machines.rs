//! Machines over tokens against references that try all ways: hand-built machines, masks of positions,
//! labels. No model.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::random::Random;
use common::vocab::TestVocab;
use ffwd::constraint::token_machine::{Labels, Lead, Levels, TokenFsm, TokenMasks, TokenSet};
use ffwd::matcher::Verdict;
use ffwd::{Compiler, Constraint, ErrorKind, Matcher, TokenId, Vocabulary};
use serde_json::json;

/// The legal tokens as the packed row says.
fn row(matcher: &mut Matcher) -> BTreeSet<TokenId> {
    let vocab = matcher.vocabulary().clone();
    let mut row = vec![u32::MAX; vocab.bitmask_words()];
    matcher.fill_bitmask(&mut row);
    let bits = (0..row.len() as u32 * 32).filter(|t| row[*t as usize / 32] >> (t % 32) & 1 == 1);
    let bits: BTreeSet<TokenId> = bits.collect();
    let lent = matcher.bitmask();
    assert_eq!(lent.count(), bits.len());
    assert!(bits.iter().all(|&t| lent.contains(t)));
    bits
}

/// A machine as a plain list, in which everything is found by trying.
struct Plain {
    edges: Vec<(u32, Vec<TokenId>, u32)>,
    accept: BTreeSet<u32>,
    states: u32,
}

impl Plain {
    fn random(random: &mut Random, alphabet: &[TokenId]) -> Plain {
        let states = 1 + random.below(5) as u32;
        let mut edges = Vec::new();
        for _ in 0..1 + random.below(9) {
            let mut tokens: Vec<TokenId> = alphabet.iter().copied().filter(|_| random.chance(45)).collect();
            if tokens.is_empty() {
                tokens.push(*random.pick(alphabet));
            }
            edges.push((random.below(states as usize) as u32, tokens, random.below(states as usize) as u32));
        }
        let accept = (0..states).filter(|_| random.chance(35)).collect();
        Plain { edges, accept, states }
    }

    fn machine(&self) -> TokenFsm {
        let mut fsm = TokenFsm::new();
        for (from, tokens, to) in &self.edges {
            fsm.add_transition(*from, &tokens[..], *to);
        }
        self.accept.iter().for_each(|&s| {
            fsm.accept(s);
        });
        fsm
    }

    fn step(&self, at: &BTreeSet<u32>, token: TokenId) -> BTreeSet<u32> {
        let edges = self.edges.iter().filter(|e| at.contains(&e.0) && e.1.contains(&token));
        edges.map(|e| e.2).collect()
    }

    fn accepts(&self, at: &BTreeSet<u32>) -> bool {
        !at.is_disjoint(&self.accept)
    }

    /// Length of the shortest string over `alphabet` that leads to acceptance, found by walking all strings
    /// of up to as many tokens as there are states; a shortest one passes no state twice.
    fn shortest(&self, at: &BTreeSet<u32>, alphabet: &[TokenId]) -> Option<usize> {
        let mut strings = vec![at.clone()];
        for len in 0..=self.states as usize {
            if strings.iter().any(|s| self.accepts(s)) {
                return Some(len);
            }
            strings = strings.iter().flat_map(|s| alphabet.iter().map(|&t| self.step(s, t))).collect();
            strings.retain(|s| !s.is_empty());
        }
        None
    }

    fn legal(&self, at: &BTreeSet<u32>, alphabet: &[TokenId]) -> BTreeSet<TokenId> {
        let completable = |t: &TokenId| self.shortest(&self.step(at, *t), alphabet).is_some();
        alphabet.iter().copied().filter(completable).collect()
    }

    /// What compiling must complain about: a state that can be reached, does not accept and has no way on.
    fn empty_states(&self, alphabet: &[TokenId]) -> BTreeSet<u32> {
        let mut reached = BTreeSet::from([0]);
        for _ in 0..self.states {
            let next: Vec<_> = alphabet.iter().map(|&t| self.step(&reached, t)).collect();
            reached.extend(next.into_iter().flatten());
        }
        reached.retain(|s| !self.accept.contains(s) && self.edges.iter().all(|e| e.0 != *s));
        reached
    }
}

#[test]
fn hand_built_machines_are_what_trying_all_strings_says() {
    let words = TestVocab::new(5, 60, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let special = words.vocab.token_id("{}<|pad|>").expect("a special token that ends nothing");
    let (mut compiled, mut empty, mut hopeless, mut walked, mut sets) = (0, 0, 0, 0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut alphabet: Vec<TokenId> =
            (0..3).map(|_| random.below(words.eos[0] as usize) as TokenId).chain([special]).collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        let plain = Plain::random(&mut random, &alphabet);
        let start = BTreeSet::from([0]);
        let grammar = compiler.compile(&Constraint::token_fsm(&plain.machine()));
        let bad = plain.empty_states(&alphabet);
        if !bad.is_empty() {
            let error = grammar.expect_err("a state with an empty mask").to_string();
            assert!(bad.iter().any(|s| error.contains(&format!("mask of state {s} "))), "{bad:?}: {error}");
            empty += 1;
            continue;
        }
        if plain.shortest(&start, &alphabet).is_none() {
            let error = grammar.expect_err("no way to accept");
            assert_eq!(error.kind(), ErrorKind::Unsatisfiable);
            assert!(error.to_string().contains("from state 0"), "{error}");
            hopeless += 1;
            continue;
        }
        let grammar = grammar.expect("a machine that can be completed");
        compiled += 1;
        let mut matcher = grammar.matcher();
        // Positions so far, the current one last, and forks taken on the way with what they must say.
        let mut path = vec![start];
        let mut tokens: Vec<TokenId> = Vec::new();
        let mut forks: Vec<(Matcher, usize)> = Vec::new();
        for _ in 0..60 {
            let at = path.last().expect("never empty").clone();
            sets += usize::from(at.len() > 1);
            let legal = plain.legal(&at, &alphabet);
            let may_end = plain.accepts(&at);
            let mut expected = legal.clone();
            expected.extend(words.eos.iter().filter(|_| may_end));
            assert_eq!(row(&mut matcher), expected, "seed {seed} after {tokens:?}");
            assert!(!expected.is_empty(), "never stuck");
            assert_eq!(matcher.is_accepting(), may_end);
            assert_eq!(matcher.is_terminated(), may_end && legal.is_empty());
            for t in 0..words.vocab.logits_size() as TokenId {
                assert_eq!(matcher.allows(t), expected.contains(&t));
            }
            // The forced run: as long as nothing can be chosen.
            let (mut run, mut here) = (Vec::new(), at.clone());
            while !plain.accepts(&here) && plain.legal(&here, &alphabet).len() == 1 {
                let token = *plain.legal(&here, &alphabet).first().expect("one");
                here = plain.step(&here, token);
                run.push(token);
            }
            assert_eq!(matcher.forced_tokens(), run);
            assert_eq!(matcher.forced_bytes(), words.vocab.decode(&run));
            let completion = matcher.token_completion().expect("of tokens");
            assert_eq!(Some(completion.len()), plain.shortest(&at, &alphabet), "the shortest");
            let mut behind = matcher.fork();
            assert!(completion.iter().all(|&t| behind.accept_token(t).is_ok()) && behind.is_accepting());
            // How many random tokens would be accepted.
            let some: Vec<TokenId> = (0..4).map(|_| *random.pick(&alphabet)).collect();
            let mut here = at.clone();
            let taken = some.iter().take_while(|&&t| {
                let legal = plain.legal(&here, &alphabet).contains(&t);
                here = plain.step(&here, t);
                legal
            });
            assert_eq!(matcher.validate_tokens(&some), taken.count());
            match random.below(10) {
                0 if !tokens.is_empty() => {
                    let n = random.below(tokens.len() + 1);
                    matcher.rollback(n);
                    tokens.truncate(tokens.len() - n);
                    path.truncate(path.len() - n);
                }
                1 => forks.push((matcher.fork(), tokens.len())),
                2 if !forks.is_empty() => {
                    let (fork, len) = forks.swap_remove(random.below(forks.len()));
                    assert_eq!(fork.num_accepted(), len);
                    assert_eq!(
                        fork.tokens()[..len.min(tokens.len())],
                        fork.tokens()[..len.min(tokens.len())]
                    );
                    matcher = fork;
                    tokens = matcher.tokens();
                    path.truncate(1);
                    for &t in &tokens {
                        let next = plain.step(path.last().expect("never empty"), t);
                        path.push(next);
                    }
                }
                _ if legal.is_empty() => {
                    let n = random.below(tokens.len() + 1);
                    matcher.rollback(n);
                    tokens.truncate(tokens.len() - n);
                    path.truncate(path.len() - n);
                }
                _ => {
                    let token = *random.pick(&legal.iter().copied().collect::<Vec<_>>());
                    matcher.accept_token(token).expect("its bit is set");
                    tokens.push(token);
                    path.push(plain.step(&at, token));
                    walked += 1;
                }
            }
        }
    }
    // Every kind of outcome was met, and overlapping transitions, too.
    assert!(
        compiled > 100 && empty > 30 && hopeless > 10 && walked > 2000 && sets > 500,
        "{compiled} {empty} {hopeless} {walked} {sets}"
    );
}

#[test]
fn walks_by_hand_agree_with_the_matcher_where_nothing_is_dead() {
    let words = TestVocab::new(5, 60, &[]);
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, [65, 66], 1).add_transition(1, [66, 67], 1).add_transition(1, 66, 2).accept(2);
    let grammar = Compiler::new(words.vocab.clone()).compile(&Constraint::token_fsm(&fsm)).unwrap();
    let (mut walk, mut matcher) = (fsm.walk(), grammar.matcher());
    for token in [65, 67, 66, 66, 67, 66] {
        assert!(walk.advance(token));
        matcher.accept_token(token).unwrap();
        assert_eq!(walk.is_complete(), matcher.is_accepting());
        let legal = row(&mut matcher).into_iter().filter(|t| !words.eos.contains(t));
        assert_eq!(walk.allowed_tokens(), legal.collect::<TokenSet>());
    }
    assert_eq!(walk.states(), [1, 2]);
    assert!(!walk.advance(65));
    assert_eq!(walk.states(), [1, 2], "refused, and nothing has changed");
    walk.reset();
    assert_eq!(walk.states(), [0]);
    assert_eq!(fsm.next_states(1, 66), [1, 2]);
    assert_eq!(fsm.allowed_tokens(1).as_slice(), [66, 67]);
}

fn refusal(words: &TestVocab, fsm: &TokenFsm) -> ffwd::Error {
    Compiler::new(words.vocab.clone()).compile(&Constraint::token_fsm(fsm)).expect_err("it is refused")
}

#[test]
fn faults_of_machines_name_the_state() {
    let words = TestVocab::new(5, 60, &[]);
    let says = |fsm: &TokenFsm, kind: ErrorKind, parts: &[&str]| {
        let error = refusal(&words, fsm);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(parts.iter().all(|p| error.to_string().contains(p)), "{error}");
    };
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, 65, 7).name(7, "colon");
    says(&fsm, ErrorKind::Unsatisfiable, &["the mask of state 7 (\"colon\") is empty", "accept state"]);
    says(&TokenFsm::new(), ErrorKind::Unsatisfiable, &["the mask of state 0 is empty"]);
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, Vec::new(), 3).accept(3);
    says(&fsm, ErrorKind::Unsatisfiable, &["from state 0 to state 3", "no tokens"]);
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, 65, 1).add_transition(1, 65, 0);
    says(&fsm, ErrorKind::Unsatisfiable, &["state 0, the start"]);
    let mut fsm = TokenFsm::new();
    fsm.add_transition(4, [65, words.eos[1]], 5).accept(5).start_in(4);
    says(&fsm, ErrorKind::InvalidOption, &[&format!("token {}", words.eos[1]), "state 4", "ends the output"]);
    let beyond = words.vocab.len() as TokenId;
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, beyond, 5).accept(5);
    says(&fsm, ErrorKind::IllegalToken, &[&format!("token {beyond}"), "state 0", "not in the vocabulary"]);

    // Dead ends that go round in circles are left out, and that is said.
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, 65, 1).accept(1).add_transition(0, 66, 2).add_transition(2, 66, 2);
    let grammar = Compiler::new(words.vocab.clone()).compile(&Constraint::token_fsm(&fsm)).unwrap();
    assert!(grammar.warnings().iter().any(|w| w.contains("state 2")), "{:?}", grammar.warnings());
    assert_eq!(row(&mut grammar.matcher()), BTreeSet::from([65]));
    // What cannot be reached is nobody's business.
    fsm.add_transition(9, 65, 10);
    assert!(Compiler::new(words.vocab.clone()).compile(&Constraint::token_fsm(&fsm)).is_ok());
}

#[test]
fn explanations_name_the_state() {
    let words = TestVocab::new(5, 60, &[]);
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, [65, 66], 1).add_transition(1, 67, 2).accept(2).name(1, "letters");
    let grammar = Compiler::new(words.vocab.clone()).compile(&Constraint::token_fsm(&fsm)).unwrap();
    let mut matcher = grammar.matcher();
    matcher.accept_token(66).unwrap();
    let found = matcher.explain(65);
    assert_eq!((found.verdict, found.fits), (Verdict::NoTransition, 0));
    assert_eq!(found.state.as_deref(), Some("state 1 (\"letters\")"));
    assert_eq!((found.examples, found.expected), (vec![67], vec![b'C']));
    assert_eq!(matcher.explain(words.eos[0]).verdict, Verdict::Unfinished);
    let found = matcher.explain(67);
    assert_eq!((found.verdict, found.fits, found.may_end), (Verdict::Legal, 1, true));
    assert_eq!(found.state.as_deref(), Some("state 2"));
    let found = matcher.explain_bytes(b"CB");
    assert_eq!((found.verdict, found.fits), (Verdict::NoTransition, 1));
    assert_eq!(matcher.num_accepted(), 1, "the state does not change");
}

#[test]
fn masks_of_positions_count_tokens() {
    let words = TestVocab::new(5, 60, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let upper = words.vocab.tokens_matching("[A-Z]+").unwrap();
    assert!(upper.iter().all(|t| words.tokens[t as usize].iter().all(u8::is_ascii_uppercase)));
    let by_hand = words.vocab.tokens_where(|bytes| bytes.iter().all(u8::is_ascii_uppercase));
    assert_eq!(upper, by_hand);
    let (a, b) = (TokenSet::from([65, 66]), TokenSet::from(67));
    for (least, most) in [(1, Some(1)), (0, Some(2)), (2, Some(4)), (0, None), (1, None), (3, None)] {
        let masks = TokenMasks::new([&a, &b]).repeat(least, most);
        let grammar = compiler.compile(&Constraint::token_masks(&masks).unwrap()).unwrap();
        let mut matcher = grammar.matcher();
        for n in 0..12u32 {
            let lists = n / 2;
            let goes_on = most.is_none_or(|most| n < 2 * most);
            let ends = n % 2 == 0 && lists >= least && most.is_none_or(|most| lists <= most);
            let mut expected: BTreeSet<TokenId> = match (goes_on, n % 2) {
                (false, _) => BTreeSet::new(),
                (true, 0) => a.iter().collect(),
                (true, _) => b.iter().collect(),
            };
            expected.extend(words.eos.iter().filter(|_| ends));
            assert_eq!(row(&mut matcher), expected, "{least} to {most:?} after {n}");
            if !goes_on {
                break;
            }
            matcher.accept_token(if n % 2 == 0 { 66 } else { 67 }).unwrap();
        }
    }
    let fails = |masks: TokenMasks| Constraint::token_masks(&masks).expect_err("refused").to_string();
    assert!(fails(TokenMasks::new([a.clone(), TokenSet::default()])).contains("position 1 is empty"));
    assert!(fails(TokenMasks::default()).contains("no positions"));
    assert!(fails(TokenMasks::new([a.clone()]).repeat(3, Some(2))).contains("none at all"));
    assert!(fails(TokenMasks::new([a]).repeat(0, Some(u32::MAX))).contains("at most"));
    let error = words.vocab.tokens_matching("[a-").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidPattern);
}

#[test]
fn sets_of_tokens_match_as_wholes() {
    let words = TestVocab::new(7, 80, &[]);
    for pattern in ["(?x) a | ab # comment", "a|b|abc", "(?i-u)[^a]", "", "\\s+", "(?m)^\"$", "(?-u:\\xff)"] {
        let found = words.vocab.tokens_matching(pattern).unwrap();
        let anchored = regex::bytes::RegexBuilder::new(&format!("\\A(?:{pattern}\n)\\z"));
        // The reference allows for a comment that reaches to the end of the line; without the flag x the
        // line break is text.
        let reference = match pattern.starts_with("(?x)") {
            true => anchored.build().unwrap(),
            false => regex::bytes::Regex::new(&format!("\\A(?:{pattern})\\z")).unwrap(),
        };
        let expected = words.vocab.tokens_where(|bytes| reference.is_match(bytes));
        assert_eq!(found, expected, "{pattern}");
    }
}

fn embedded() -> Vocabulary {
    let json = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/extract-5m/tokenizer.json"));
    Vocabulary::from_bytes(json).unwrap().with_eos(vec![2])
}

const WORDS: &[&str] = &[
    "sport",
    "sports",
    "sport science",
    "Sport",
    "AI",
    "AI ethics",
    "A",
    "größe",
    "größer",
    "日本",
    "日本語",
    "emoji 😀",
    "😀",
    "x-ray",
    "x",
    "e-mail",
    "mail",
    "don't",
    "don",
    "C++",
    "C",
    "1984",
    "19",
    "the",
    "them",
];

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
    let mut states = 0;
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut labels: Vec<&str> = Vec::new();
        for _ in 0..1 + random.below(4) {
            let label = *random.pick(WORDS);
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
        told += usize::from(grammar.warnings().iter().any(|w| w.contains(separator)));
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
    let labels = Labels::new(WORDS.iter().copied()).several("; ").at_most(6).at_least(2);
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
                    matcher.rollback(random.below(matcher.num_accepted()) + 1);
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
    // What the separator begins with may not be how a label goes on.
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

/// A tokenizer of single characters with one longer token, in the manner of Llama 2: spaces are U+2581, and
/// one is put in front of every text.
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

#[test]
fn machines_over_tokens_do_not_combine() {
    let labels = Constraint::labels(&Labels::new(["a"]));
    assert!(labels.is_token_level());
    let text = Constraint::choice(["x"]).unwrap();
    let results = [
        labels.then(&text),
        text.then(&labels),
        labels.or(&text),
        text.or(&labels),
        text.and(&labels),
        labels.not(),
    ];
    for result in results {
        assert_eq!(result.expect_err("refused").kind(), ErrorKind::Unsupported);
    }
}
