//! Machines over tokens against references that try all paths: hand-built machines and masks of
//! positions. No model.

use std::collections::BTreeSet;

use ffwd::constraint::token_machine::{Labels, TokenFsm, TokenMasks, TokenSet};
use ffwd::matcher::Verdict;
use ffwd::{CompiledGrammar, Compiler, Constraint, ErrorKind, Matcher, TokenId};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, row};
use ffwd_testkit::walk::{Forced, Seen, TokenLanguage, Walk, forced_tokens};

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

/// A machine over some tokens, and the number of times that it was in several states at once.
struct Tried<'a> {
    plain: &'a Plain,
    alphabet: &'a [TokenId],
    several: usize,
}

impl TokenLanguage for Tried<'_> {
    type State = BTreeSet<u32>;
    const BYTES: bool = false;

    fn start(&mut self) -> BTreeSet<u32> {
        BTreeSet::from([0])
    }

    fn after(&mut self, at: &BTreeSet<u32>, token: TokenId) -> BTreeSet<u32> {
        self.several += usize::from(at.len() > 1);
        self.plain.step(at, token)
    }

    fn allows(&mut self, at: &BTreeSet<u32>, token: TokenId) -> bool {
        self.alphabet.contains(&token)
            && self.plain.shortest(&self.plain.step(at, token), self.alphabet).is_some()
    }

    fn may_end(&mut self, at: &BTreeSet<u32>) -> bool {
        self.plain.accepts(at)
    }

    fn forced(&mut self, at: &BTreeSet<u32>) -> Forced {
        forced_tokens(self, at, self.alphabet)
    }

    fn shortest(&mut self, at: &BTreeSet<u32>) -> Option<usize> {
        self.plain.shortest(at, self.alphabet)
    }
}

#[test]
fn hand_built_machines_are_what_trying_all_strings_says() {
    let words = TestVocab::new(5, 60, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let special = words.vocab.token_id("{}<|pad|>").expect("a special token that ends nothing");
    let (mut compiled, mut empty, mut hopeless, mut several) = (0, 0, 0, 0);
    let mut seen = Seen::default();
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut alphabet: Vec<TokenId> =
            (0..3).map(|_| random.below(words.eos[0] as usize) as TokenId).chain([special]).collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        let plain = Plain::random(&mut random, &alphabet);
        let start = BTreeSet::from([0]);
        let constraint = Constraint::token_fsm(&plain.machine());
        let grammar = compiler.compile(&constraint);
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
        let language = Tried { plain: &plain, alphabet: &alphabet, several: 0 };
        let mut walk = Walk::new(language, &words, &constraint, &compiler, &grammar);
        for _ in 0..3 {
            let result = walk.random(40, &mut random, &mut seen);
            result.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
        several += walk.language.several;
    }
    // Every kind of outcome was met, and overlapping transitions, too.
    assert!(
        compiled > 100 && empty > 30 && hopeless > 10 && seen.masks > 5000 && several > 500,
        "{compiled} {empty} {hopeless} {seen:?} {several}"
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

/// A text up to a marker, and the tokens of another grammar behind it.
struct Marked<'a> {
    words: &'a TestVocab,
    marker: &'static str,
    behind: &'a CompiledGrammar,
    /// States asked about on either side of the marker.
    counts: [usize; 2],
}

impl Marked<'_> {
    fn text(&self, path: &[TokenId]) -> Vec<u8> {
        path.iter().flat_map(|&t| self.words.tokens[t as usize].clone()).collect()
    }

    fn has(&self, text: &[u8]) -> bool {
        text.windows(self.marker.len()).any(|w| w == self.marker.as_bytes())
    }

    /// The matcher of what stands behind the marker, if it has come.
    fn tail(&self, path: &[TokenId]) -> Option<Matcher> {
        let split = (0..=path.len()).find(|&n| self.has(&self.text(&path[..n])))?;
        let mut matcher = self.behind.matcher();
        path[split..].iter().for_each(|&t| matcher.accept_token(t).unwrap());
        Some(matcher)
    }
}

impl TokenLanguage for Marked<'_> {
    type State = Vec<TokenId>;
    const BYTES: bool = false;

    fn start(&mut self) -> Vec<TokenId> {
        Vec::new()
    }

    fn after(&mut self, path: &Vec<TokenId>, token: TokenId) -> Vec<TokenId> {
        [path, &[token][..]].concat()
    }

    fn allows(&mut self, path: &Vec<TokenId>, token: TokenId) -> bool {
        if let Some(mut matcher) = self.tail(path) {
            return !self.words.eos.contains(&token) && matcher.allows(token);
        }
        let bytes = &self.words.tokens[token as usize];
        let all = [&self.text(path), &bytes[..]].concat();
        !bytes.is_empty() && is_text(&all) && !self.has(&all[..all.len() - 1])
    }

    fn may_end(&mut self, path: &Vec<TokenId>) -> bool {
        self.tail(path).is_some_and(|matcher| matcher.is_accepting())
    }

    fn forced(&mut self, path: &Vec<TokenId>) -> Forced {
        let tail = self.tail(path);
        self.counts[usize::from(tail.is_some())] += 1;
        Forced::Tokens(tail.map_or(Vec::new(), |mut matcher| matcher.forced_tokens()))
    }

    /// A character that is not whole yet cannot be completed by a marker alone.
    fn must_complete(&mut self, path: &Vec<TokenId>) -> bool {
        self.tail(path).is_some() || std::str::from_utf8(&self.text(path)).is_ok()
    }
}

#[test]
fn tokens_behind_a_marker_come_behind_the_first_one() {
    let words = TestVocab::new(5, 60, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let special = words.vocab.token_id("{}<|pad|>").expect("a special token that ends nothing");
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, [special, 65], 1).add_transition(1, 66, 1).add_transition(1, [67, 68], 2).accept(2);
    let tokens = Constraint::token_fsm(&fsm);
    let behind = &compiler.compile(&tokens).unwrap();
    let (mut seen, mut counts) = (Seen::default(), [0; 2]);
    for (seed, marker) in ["]}", "--", "null", "\n", "\"\"\"", "é"].into_iter().enumerate() {
        let constraint = tokens.behind_marker(marker).unwrap();
        let grammar = compiler.compile(&constraint).unwrap();
        let language = Marked { words: &words, marker, behind, counts: [0; 2] };
        let mut walk = Walk::new(language, &words, &constraint, &compiler, &grammar);
        walk.prefer(marker.as_bytes());
        let mut random = Random::new(seed as u64);
        for _ in 0..24 {
            walk.random(20, &mut random, &mut seen).unwrap_or_else(|e| panic!("{marker:?} {e}"));
        }
        counts = [0, 1].map(|i| counts[i] + walk.language.counts[i]);
    }
    assert!(counts[0] > 500 && counts[1] > 300 && seen.finished > 20, "{counts:?} {seen:?}");
    let twice = tokens.behind_marker("a").unwrap().behind_marker("b");
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Unsupported);
}
