//! Machines over tokens against references that try all paths: hand-built machines and masks of
//! positions. No model.

use std::collections::BTreeSet;

use ffwd::constraint::token_machine::{Labels, TokenFsm, TokenMasks, TokenSet};
use ffwd::matcher::Verdict;
use ffwd::{Compiler, Constraint, ErrorKind, Matcher, TokenId};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, row};

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

    /// Length of the shortest string over `alphabet` that leads to acceptance, found by walking all
    /// strings of up to as many tokens as there are states; a shortest one passes no state twice.
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

    /// The state that compiling must report: reachable, not accepting and without a transition.
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
        // Positions so far, the current one last, and forks taken on the way with what they must
        // say.
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
    assert!(grammar.warnings().iter().any(|w| w.message().contains("state 2")), "{:?}", grammar.warnings());
    assert_eq!(row(&mut grammar.matcher()), BTreeSet::from([65]));
    // Unreachable states do not matter.
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
        // The reference allows for a comment that reaches to the end of the line; without the flag
        // x the line break is text.
        let reference = match pattern.starts_with("(?x)") {
            true => anchored.build().unwrap(),
            false => regex::bytes::Regex::new(&format!("\\A(?:{pattern})\\z")).unwrap(),
        };
        let expected = words.vocab.tokens_where(|bytes| reference.is_match(bytes));
        assert_eq!(found, expected, "{pattern}");
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

/// Whether bytes are text as far as they go: what may be missing is the end of a character.
fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none()) || std::str::from_utf8(bytes).is_ok()
}

#[test]
fn tokens_behind_a_marker_come_behind_the_first_one() {
    let words = TestVocab::new(5, 60, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let special = words.vocab.token_id("{}<|pad|>").expect("a special token that ends nothing");
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, [special, 65], 1).add_transition(1, 66, 1).add_transition(1, [67, 68], 2).accept(2);
    let tokens = Constraint::token_fsm(&fsm);
    let alone = compiler.compile(&tokens).unwrap();
    let (mut inside, mut behind, mut ended) = (0, 0, 0);
    for (seed, marker) in ["]}", "--", "null", "\n", "\"\"\"", "é"].into_iter().enumerate() {
        let grammar = compiler.compile(&tokens.behind_marker(marker).unwrap()).unwrap();
        let mut random = Random::new(seed as u64);
        let mut matcher = grammar.matcher();
        let mut path: Vec<TokenId> = Vec::new();
        for _ in 0..400 {
            // How many tokens the text has, if its marker has come.
            let text = |n: usize| {
                path[..n].iter().flat_map(|&t| words.tokens[t as usize].clone()).collect::<Vec<_>>()
            };
            let has = |text: &[u8]| text.windows(marker.len()).any(|w| w == marker.as_bytes());
            let split = (0..=path.len()).find(|&n| has(&text(n)));
            let mut expected = BTreeSet::new();
            match split {
                Some(n) => {
                    let mut reference = alone.matcher();
                    path[n..].iter().for_each(|&t| reference.accept_token(t).unwrap());
                    expected = row(&mut reference);
                    assert_eq!(matcher.is_accepting(), reference.is_accepting());
                    assert_eq!(matcher.is_terminated(), reference.is_terminated());
                    assert_eq!(matcher.forced_tokens(), reference.forced_tokens());
                    behind += 1;
                }
                None => {
                    for (t, bytes) in words.tokens.iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
                        let all = [text(path.len()), bytes.clone()].concat();
                        if is_text(&all) && !has(&all[..all.len() - 1]) {
                            expected.insert(t as TokenId);
                        }
                    }
                    assert!(!matcher.is_accepting() && !matcher.is_terminated());
                    assert!(matcher.forced_tokens().is_empty());
                    inside += 1;
                }
            }
            assert_eq!(row(&mut matcher), expected, "{marker:?} after {path:?}");
            for t in 0..words.vocab.logits_size() as TokenId {
                assert_eq!(matcher.allows(t), expected.contains(&t), "{marker:?} after {path:?}: {t}");
                let verdict = matcher.explain(t).verdict;
                assert_eq!(verdict == Verdict::Legal, expected.contains(&t), "{verdict:?}");
            }
            let mut fork = matcher.fork();
            // A character that is not whole yet cannot be completed by a marker alone.
            if split.is_some() || std::str::from_utf8(&text(path.len())).is_ok() {
                let completion = matcher.token_completion().expect("there always is one");
                assert!(
                    completion.iter().all(|&t| fork.accept_token(t).is_ok()),
                    "{completion:?} after {path:?}"
                );
                assert!(fork.is_accepting());
            }
            let legal: Vec<TokenId> = expected.into_iter().filter(|t| !words.eos.contains(t)).collect();
            let marked: Vec<TokenId> = legal
                .iter()
                .copied()
                .filter(|&t| {
                    marker.as_bytes().contains(&words.tokens[t as usize].first().copied().unwrap_or(b'x'))
                })
                .collect();
            if legal.is_empty() || random.chance(8) {
                ended += usize::from(legal.is_empty());
                let n = random.below(path.len() + 1);
                matcher.rollback(n);
                path.truncate(path.len() - n);
            } else {
                let from = if marked.is_empty() || random.chance(40) { &legal } else { &marked };
                let token = *random.pick(from);
                matcher.accept_token(token).expect("its bit is set");
                path.push(token);
            }
        }
    }
    assert!(inside > 500 && behind > 300 && ended > 20, "{inside} {behind} {ended}");
    assert_eq!(
        tokens.behind_marker("a").unwrap().behind_marker("b").unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}
