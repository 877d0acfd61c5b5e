//! Tests: masks of local states against a walk of all tokens, on a vocabulary that is large enough
//! for every shortcut.

use std::collections::BTreeSet;

use super::builder::MaskBuilder;
use super::class_loops::{LoopThresholds, loop_mask};
use super::exits::below;
use super::memo::LocalMask;
use super::trie_walk::{WalkOptions, WalkResult, Walker};
use super::{BaseMasks, MaskCache};
use crate::constraint::ir::Node;
use crate::machine::{
    ConfigId, LocalState, Machine, Program, ROOT_STACK, StackMachine, StepResult, TRIED, Thread,
    UNKNOWN_STACK,
};
use crate::vocab::{TokenId, Vocabulary};
use crate::{Constraint, Policy};
use ffwd_testkit::random::Random;
use std::sync::Arc;

/// Every byte, some words, and thousands of strings of printable characters and a character of two
/// bytes.
fn vocabulary(random: &mut Random, more: &[String]) -> Vocabulary {
    let bytes = serde_json::json!(
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
    );
    // The spelling of a blank and of the two bytes in such a tokenizer.
    let mut letters: Vec<char> = ('!'..='~').collect();
    letters.extend(['\u{120}', '\u{c3}', '\u{a9}']);
    // The tokenizer writes the others as the characters from 256 on, in order.
    let itself = |b: &u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let spelled = (0..=255u8).filter(itself).map(char::from);
    let others = (0..=255u8).filter(|b| !itself(b)).zip('\u{100}'..).map(|(_, c)| c);
    let mut words: BTreeSet<String> = spelled.chain(others).map(String::from).collect();
    let usual: Vec<char> = "aabcdexyzAB01 -_.".replace(' ', "\u{120}").chars().collect();
    words.extend(more.iter().cloned());
    while words.len() < 6_000 {
        let len = if random.below(10) == 0 { 24 } else { 9 };
        let mut word = String::new();
        for _ in 0..2 + random.below(len) {
            let from = if random.below(12) == 0 { &letters } else { &usual };
            word.push(*random.pick(from));
            if random.below(40) == 0 {
                word.push_str("\u{c3}\u{a9}");
            }
        }
        words.insert(word);
    }
    let vocab: serde_json::Map<String, serde_json::Value> =
        words.into_iter().enumerate().map(|(i, word)| (word, i.into())).collect();
    let json = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []}
    });
    Vocabulary::from_bytes(json.to_string().as_bytes()).expect("a tokenizer of random words")
}

/// A pattern similar to those in schemas: loops in classes, repetitions, searches for words.
fn pattern(random: &mut Random) -> String {
    let classes = [
        "[a-z]",
        "[A-Za-z0-9_-]",
        "[a-z0-9.-]",
        "[^/:*]",
        "[^a]",
        "[^ ]",
        ".",
        "[0-9]",
        "[a-zA-Z0-9 _.]",
        "[^-_.0-9]",
        "[b-e]",
        "\\S",
        "\\w",
        "[!-~]",
    ];
    let ends = ["*", "+", "", "{1,3}", "{9}", "{2,12}", "{0,40}", "?"];
    let words = ["ab", "a", "x.y", "-", "cde", "0", " ", "/"];
    let mut text = String::new();
    for _ in 0..1 + random.below(4) {
        match random.below(4) {
            0 => text += &random.pick(&words[..]).replace('.', "\\."),
            1 => {
                let part = format!("{}{}", random.pick(&classes[..]), random.pick(&ends[..]));
                text += &format!("({part}|{}{part})*", random.pick(&words[..]).replace('.', "\\."));
            }
            _ => text += &format!("{}{}", random.pick(&classes[..]), random.pick(&ends[..])),
        }
    }
    text
}

struct Setting {
    vocab: Vocabulary,
    base: Program,
    shared: Arc<BaseMasks>,
}

impl Setting {
    fn new(random: &mut Random) -> Setting {
        Setting::with_words(random, &[])
    }

    fn with_words(random: &mut Random, more: &[String]) -> Setting {
        let vocab = vocabulary(random, more);
        let alphabet: [bool; 256] = std::array::from_fn(|b| vocab.has_byte(b as u8));
        let ir = Constraint::regex("a").expect("a pattern");
        let mut base = Program::base(&Policy::default(), &alphabet, ir.ir()).expect("a base");
        base.determinise();
        let states = base.dfa_len() as u32;
        let mut machine = Machine::new(base.clone(), vocab.quoted_strings().clone());
        let shared = MaskCache::base(&vocab, &mut machine.core, states);
        Setting { vocab, base, shared }
    }

    fn machine(&self, constraint: &Constraint) -> Option<Machine> {
        let program = Program::extend(&self.base, constraint.ir()).ok()?;
        Some(Machine::new(program, self.vocab.quoted_strings().clone()))
    }

    /// The result of a walk of all tokens.
    fn walked(
        &self,
        machine: &mut StackMachine,
        thread: Thread,
    ) -> (BTreeSet<TokenId>, BTreeSet<(TokenId, u16)>) {
        let mut found = WalkResult::default();
        let trie = self.vocab.trie();
        Walker::default().walk_below(machine, trie, 0, &[thread], WalkOptions::ALL, &mut found);
        (found.tokens.iter().map(|t| t.0).collect(), self.tails(&found))
    }

    /// The exits of a mask that is not truncated, without those of tokens that are legal inside the rule.
    fn exits(
        &self,
        masks: &MaskBuilder,
        mask: &LocalMask,
        legal: &BTreeSet<TokenId>,
    ) -> BTreeSet<(TokenId, u16)> {
        assert!(!mask.truncated && !mask.passes);
        let sets = mask.exits.iter().map(|&id| masks.memo.exit_set(id));
        let tails = sets.flat_map(|set| {
            let wide = set.wide.iter().flat_map(|&node| below(self.vocab.trie(), node));
            set.entries.iter().copied().chain(wide)
        });
        tails.map(|tail| (tail.token, tail.offset)).filter(|exit| !legal.contains(&exit.0)).collect()
    }

    /// Compares the mask of a local state with a walk of all tokens.
    fn compare_state(
        &self,
        machine: &mut Machine,
        masks: &mut MaskBuilder,
        state: u32,
        what: &str,
    ) -> Thread {
        let stack = if machine.core.local.automaton.calls_nothing() { ROOT_STACK } else { UNKNOWN_STACK };
        let thread = Thread { local: LocalState { state, register: 0, n: 0 }, stack };
        let (tokens, exits) = self.walked(&mut machine.core, thread);
        let mask = masks.walked(&mut machine.core, thread);
        assert_eq!(row_tokens(mask.base.as_deref(), &mask.tokens), tokens, "{what} {state}");
        let exits: BTreeSet<_> = exits.into_iter().filter(|exit| !tokens.contains(&exit.0)).collect();
        assert_eq!(self.exits(masks, &mask, &tokens), exits, "{what} {state}");
        thread
    }

    /// Compares the mask of a configuration with the bytes of all tokens; the legal ones.
    fn compare_tokens(
        &self,
        machine: &mut Machine,
        masks: &mut MaskCache,
        config: ConfigId,
        what: &str,
    ) -> Vec<TokenId> {
        let mut row = vec![0; self.vocab.len().div_ceil(32)];
        masks.mask(machine, config).write(&mut row);
        let mut legal = Vec::new();
        for token in 0..self.vocab.len() as TokenId {
            let bytes = self.vocab.token_bytes(token);
            let allowed = !bytes.is_empty() && machine.allows(config, bytes);
            let masked = row[token as usize / 32] >> (token % 32) & 1 == 1;
            assert_eq!(masked, allowed, "{what} {:?}", String::from_utf8_lossy(bytes));
            legal.extend(allowed.then_some(token));
        }
        legal
    }

    fn tails(&self, found: &WalkResult) -> BTreeSet<(TokenId, u16)> {
        let tails = found.exits.iter().flat_map(|e| below(self.vocab.trie(), e.0));
        tails.map(|tail| (tail.token, tail.offset)).collect()
    }
}

/// The states that some texts of a grammar lead to, without a register; of an array, those inside
/// it.
fn states(machine: &mut Machine, random: &mut Random) -> Vec<u32> {
    let mut threads = machine.threads(machine.initial()).to_vec();
    if !machine.core.local.automaton.calls_nothing() {
        let mut reached = StepResult::default();
        machine.core.step(&threads, b'[', TRIED, &mut reached);
        threads = reached.threads;
    }
    let plain = threads.iter().map(|thread| thread.local).filter(|local| local.register == 0);
    let mut states: BTreeSet<u32> = plain.map(|local| local.state).collect();
    let mut todo: Vec<u32> = states.iter().copied().collect();
    while let Some(state) = todo.pop().filter(|_| states.len() < 40) {
        let row = machine.core.local.automaton.transitions(state);
        let mut ends: Vec<u32> = row.into_iter().filter(|&to| to != 0).collect();
        ends.sort_unstable();
        ends.dedup();
        for to in ends {
            if random.below(3) > 0 && states.insert(to) {
                todo.push(to);
            }
        }
    }
    states.into_iter().collect()
}

fn row_tokens(base: Option<&[u32]>, more: &[TokenId]) -> BTreeSet<TokenId> {
    let base = base.unwrap_or_default();
    let dense = (0..base.len() as u32 * 32).filter(|t| base[*t as usize / 32] >> (t % 32) & 1 == 1);
    dense.chain(more.iter().copied()).collect()
}

#[test]
fn shortcuts_find_what_a_walk_finds() {
    let mut random = Random::new(11);
    let setting = Setting::new(&mut random);
    let free = LoopThresholds { all: 0, each: 0, others: u32::MAX };
    let (mut by_loops, mut masks_compared) = (0, 0);
    for case in 0..220 {
        let text = pattern(&mut random);
        let schema = serde_json::json!({"type": "string", "pattern": format!("^{text}$")}).to_string();
        let searched = serde_json::json!({"type": "string", "not": {"pattern": text}});
        let searched = serde_json::json!({"type": "array", "items": searched}).to_string();
        let constraint = match case % 3 {
            0 => Constraint::regex(&text),
            1 => Constraint::json_schema(&schema),
            _ => Constraint::json_schema(&searched),
        };
        let Some(mut machine) = constraint.ok().and_then(|c| setting.machine(&c)) else { continue };
        let mut cache = MaskCache::new(&setting.vocab, setting.shared.clone());
        let masks = &mut cache.builder;
        let mut walker = Walker::default();
        for state in states(&mut machine, &mut random) {
            let thread = setting.compare_state(&mut machine, masks, state, &format!("{text} {case}"));
            let (tokens, exits) = setting.walked(&mut machine.core, thread);
            if let Some((row, found)) =
                loop_mask(&mut machine.core, &setting.vocab, &mut walker, thread, free)
            {
                let more: Vec<TokenId> = found.tokens.iter().map(|t| t.0).collect();
                assert_eq!(row_tokens(Some(&row), &more), tokens, "{text} {case} {state}");
                assert_eq!(setting.tails(&found), exits, "{text} {case} {state}");
                by_loops += 1;
            }
            masks_compared += 1;
        }
    }
    assert!(by_loops > 300 && masks_compared > 800, "{by_loops} {masks_compared}");
}

/// Counted words have more states than the search visits. Those far away are visited in part.
#[test]
fn words_are_counted_as_a_walk_counts_them() {
    let mut random = Random::new(14);
    // Long ones that end a string, and long ones with characters of two bytes, as the tokenizer
    // writes them.
    let mut long = |last: &str| {
        let text: String = (0..3 + random.below(14)).map(|_| *random.pick(&['a', 'b', 'c', '-'])).collect();
        format!("{text}{last}")
    };
    let ends = (0..400).map(|i| long(if i % 2 == 0 { "\"" } else { "\u{c3}\u{a9}aaaaaabbb" }));
    let more: Vec<String> = ends.collect();
    let setting = Setting::with_words(&mut random, &more);
    let words = ["\\S+", "[^ ]{1,4}", "[^-]+", "[a-z]+", "[^.]*a", "(?:a|[^ -])+"];
    let between = ["\\s+", " ", "-+", "[ .]", "\\s*-"];
    let (mut partly, mut nowhere, mut compared) = (0, 0, 0);
    for case in 0..160 {
        let (word, space) = (random.pick(&words[..]), random.pick(&between[..]));
        let (word, space, least) = match case % 4 {
            // The quote is not near.
            0 => ("[^x]", "y?", 9 + random.below(6)),
            _ => (*word, *space, random.below(3)),
        };
        let text = match case % 4 {
            // More is alive after a character of two bytes, which is not near.
            1 => format!("^[^ ]{{{}}}(?:[^ \u{e9}]|\u{e9}[^ ]{{12}})$", 5 + random.below(6)),
            _ => format!("^(?:{word}{space}){{{least},{}}}{word}$", least + 3 + random.below(30)),
        };
        let schema = serde_json::json!({"type": "string", "pattern": text}).to_string();
        let Some(mut machine) = Constraint::json_schema(&schema).ok().and_then(|c| setting.machine(&c))
        else {
            continue;
        };
        let mut cache = MaskCache::new(&setting.vocab, setting.shared.clone());
        let masks = &mut cache.builder;
        for state in states(&mut machine, &mut random) {
            let thread = setting.compare_state(&mut machine, masks, state, &format!("{text} {case}"));
            if let Some(contained) = masks.slice_of(&mut machine.core, thread, false) {
                partly += usize::from(contained.near.is_partial());
                nowhere += usize::from(contained.need.reach < u32::MAX);
            }
            compared += 1;
        }
    }
    assert!(partly > 200 && nowhere > 200 && compared > 2_000, "{partly} {nowhere} {compared}");
}

/// Texts up to their closing tag, and patterns, as items of an array. A token that is rejected
/// inside an item may have left it first.
#[test]
fn rules_that_end_inside_tokens() {
    let mut random = Random::new(16);
    let closes = ["ab", "-", "x.y", "</a>", "\u{e9}", "aab", "0 1", "z\u{e9}z"];
    let setting =
        Setting::with_words(&mut random, &closes.map(|close| close.replace('\u{e9}', "\u{c3}\u{a9}")));
    let (mut compared, mut sliced, mut left) = (0, 0, 0);
    for case in 0..240 {
        let close = *random.pick(&closes[..]);
        let end = Constraint::choice([close]).expect("a text");
        let text = pattern(&mut random);
        let made = match case % 3 {
            0 => Constraint::regex(format!("(?s).*{}.*", close.replace('.', "\\.")))
                .and_then(|with| with.not()?.then(&end)),
            1 => Constraint::regex(&text).and_then(|text| text.then(&end)),
            _ => Constraint::regex(&text),
        };
        let Ok(made) = made else { continue };
        let mut ir = made.ir().clone();
        let rest = Some(ir.root());
        let root = ir.push(Node::JsonArray { prefix: Vec::new(), rest, min: 0, max: None });
        ir.set_root(root);
        let constraint = Constraint::from_ir(ir, Policy::default());
        let Some(mut machine) = setting.machine(&constraint) else { continue };
        let mut cache = MaskCache::new(&setting.vocab, setting.shared.clone());
        let masks = &mut cache.builder;
        for state in states(&mut machine, &mut random) {
            let thread = Thread { local: LocalState { state, register: 0, n: 0 }, stack: UNKNOWN_STACK };
            let (tokens, exits) = setting.walked(&mut machine.core, thread);
            let ends =
                masks.slice_of(&mut machine.core, thread, false).is_some_and(|contained| contained.ends);
            let mask = masks.walked(&mut machine.core, thread);
            let tails = setting.exits(masks, &mask, &BTreeSet::new());
            // A token that ends with the rule is legal. So is one that stays inside, even if it
            // could have left.
            let legal = |tokens: &BTreeSet<TokenId>, exits: &BTreeSet<(TokenId, u16)>| {
                let ends =
                    |exit: &&(TokenId, u16)| exit.1 as usize == setting.vocab.token_bytes(exit.0).len();
                let ending = exits.iter().filter(ends).map(|exit| exit.0);
                tokens.iter().copied().chain(ending).collect::<BTreeSet<TokenId>>()
            };
            let found = legal(&row_tokens(mask.base.as_deref(), &mask.tokens), &tails);
            let tokens = legal(&tokens, &exits);
            assert_eq!(found, tokens, "{text} {close} {case} {state}");
            let further = |exits: BTreeSet<(TokenId, u16)>| {
                exits.into_iter().filter(|exit| !tokens.contains(&exit.0)).collect::<BTreeSet<_>>()
            };
            let (tails, exits) = (further(tails), further(exits));
            assert_eq!(tails, exits, "{text} {close} {case} {state}");
            (compared, sliced) = (compared + 1, sliced + usize::from(ends));
            left += if ends { exits.len() } else { 0 };
        }
    }
    println!("{compared} states, {sliced} by slices, {left} exits of those");
    assert!(compared > 2_000 && sliced > 150 && left > 30_000, "{compared} {sliced} {left}");
}

/// The rule may end in states that the search did not visit, and a token may continue after that
/// end.
#[test]
fn rules_that_end_out_of_sight_go_on_behind_it() {
    let mut random = Random::new(15);
    let words: Vec<String> = (0..300)
        .map(|_| {
            let mut text = |n: usize| (0..n).map(|_| *random.pick(&['a', 'b', 'c'])).collect::<String>();
            let (before, behind) = (text(5), text(3));
            format!("{}{before}\u{c3}\u{a9}{behind}", text(3))
        })
        .collect();
    let setting = Setting::with_words(&mut random, &words);
    let mut behind = 0;
    for n in 5..12 {
        let grammar =
            format!("root ::= word [a-z]+\nword ::= \"(\" word \")\" | {} \"\u{e9}\"\n", "[^ ] ".repeat(n));
        let constraint = Constraint::ebnf(&grammar).expect("a grammar");
        let mut machine = setting.machine(&constraint).expect("a machine");
        let mut masks = MaskCache::new(&setting.vocab, setting.shared.clone());
        let mut config = machine.initial();
        for _ in 0..=n {
            let legal = setting.compare_tokens(&mut machine, &mut masks, config, &grammar);
            behind += legal.iter().filter(|t| setting.vocab.token_bytes(**t).len() > 10).count();
            config = machine.step_bytes(config, b"a");
        }
    }
    assert!(behind > 100, "{behind}");
}

#[test]
fn parallel_patterns_allow_what_each_does() {
    let mut random = Random::new(12);
    let setting = Setting::new(&mut random);
    let tokens: Vec<TokenId> = (0..setting.vocab.len() as u32).collect();
    let mut parallel = 0;
    for _ in 0..200 {
        let one: Vec<serde_json::Value> = (0..2 + random.below(3))
            .map(|_| serde_json::json!({"type": "string", "pattern": pattern(&mut random)}))
            .collect();
        let schema = serde_json::json!({"type": "array", "items": {"oneOf": one}}).to_string();
        let constraint = Constraint::json_schema(&schema);
        let Some(mut machine) = constraint.ok().and_then(|c| setting.machine(&c)) else { continue };
        let mut masks = MaskCache::new(&setting.vocab, setting.shared.clone());
        let mut config = machine.initial();
        for step in 0..12 {
            if machine.threads(config).len() > 1 {
                parallel += 1;
                setting.compare_tokens(&mut machine, &mut masks, config, &schema);
            }
            let forced: Option<&[u8]> = [&b"["[..], b"\""].get(step).copied();
            let mut next = || match forced {
                Some(bytes) => bytes.to_vec(),
                None => setting.vocab.token_bytes(*random.pick(&tokens)).to_vec(),
            };
            let Some(bytes) = (0..200).map(|_| next()).find(|b| machine.allows(config, b)) else { break };
            config = machine.step_bytes(config, &bytes);
        }
    }
    assert!(parallel > 50, "{parallel}");
}

/// A random grammar in which most texts have many parses.
fn ambiguous(random: &mut Random) -> String {
    let texts = ["[a-e]", "\"a\"", "[a-zA-Z]", "[^x]", "\"ab\"", "[a-z0-9._-]", "[b-d] [c-e]"];
    let mut text = || *random.pick(&texts[..]);
    let mut shapes = vec![
        format!("root {} root", text()),
        format!("{} root root {}?", text(), text()),
        format!("root root {}", text()),
        format!("other root? {}", text()),
        format!("{} other other", text()),
    ];
    let text = text();
    while shapes.len() > 3 {
        shapes.remove(random.below(shapes.len()));
    }
    let empty = if random.below(3) == 0 { " | \"\"" } else { "" };
    format!(
        "root ::= {text} | {}{empty}\nother ::= root | {text} other root | root other {text}\n",
        shapes.join(" | ")
    )
}

/// Number of threads that are many.
const CROWD: usize = 32;

#[test]
fn crowds_allow_what_their_threads_do() {
    let mut random = Random::new(13);
    let setting = Setting::new(&mut random);
    let tokens: Vec<TokenId> = (0..setting.vocab.len() as u32).collect();
    let (mut compared, mut crowds, mut most) = (0, 0, 0);
    for _ in 0..9 {
        let text = ambiguous(&mut random);
        let Some(mut machine) = setting.machine(&Constraint::ebnf(&text).expect("a grammar")) else {
            continue;
        };
        let mut masks = MaskCache::new(&setting.vocab, setting.shared.clone());
        // Steps of thread sets are remembered never, only at first, and always.
        let mut walkers = [0, 20_000, usize::MAX].map(Walker::with_room);
        let mut config = machine.initial();
        for _ in 0..5 {
            let mask = masks.mask(&mut machine, config);
            let mut row = vec![0; setting.vocab.len().div_ceil(32)];
            mask.write(&mut row);
            let legal = row_tokens(Some(&row), &[]);
            let threads = machine.threads(config);
            // The larger a set, the longer it takes not to remember.
            let from = if threads.len() > CROWD { 2 } else { 0 };
            for walker in &mut walkers[from..] {
                let mut found = WalkResult::default();
                walker.walk_below(
                    &mut machine.core,
                    setting.vocab.trie(),
                    0,
                    &threads,
                    WalkOptions::ALL,
                    &mut found,
                );
                let found: BTreeSet<TokenId> = found.tokens.iter().map(|t| t.0).collect();
                assert_eq!(found, legal, "{text}");
            }
            for &token in (0..50).map(|_| random.pick(&tokens)) {
                let bytes = setting.vocab.token_bytes(token);
                let allowed = !bytes.is_empty() && machine.allows(config, bytes);
                assert_eq!(legal.contains(&token), allowed, "{text} {bytes:?}");
            }
            compared += 1;
            crowds += usize::from(threads.len() > CROWD);
            most = most.max(threads.len());
            let short = |t: &&TokenId| setting.vocab.token_bytes(**t).len() < 5;
            let legal: Vec<&TokenId> = legal.iter().filter(short).collect();
            if legal.is_empty() {
                break;
            }
            let token = **random.pick(&legal);
            config = machine.step_bytes(config, setting.vocab.token_bytes(token));
        }
    }
    assert!(compared > 30 && crowds > 4 && most > 2 * CROWD, "{compared} {crowds} {most}");
}

/// A grammar with ignored blanks, or with atoms of one character, in which rules call each other.
fn blanks_and_atoms(random: &mut Random) -> String {
    let name = ["[a-z]+", "[a-zA-Z_][a-zA-Z0-9_.]*", "[abx]+", "[a-e]"];
    let name = *random.pick(&name[..]);
    let marks = ["\"-\"", "\".\"", "\"B\"", "\"a\"", "\"_\" \"x\"?"];
    let [first, second, third] = [0; 3].map(|_| *random.pick(&marks[..]));
    let list = *random.pick(&["item+", "item*", "(item \"-\"?)+", "item (\"_\" item)*"][..]);
    let blanks = *random.pick(&["%ignore / +/\n", "%ignore /[ .]+/\n%ignore /0[^0]*0/\n", ""][..]);
    format!(
        "start: sum\nsum: sum {first} product | product\nproduct: product {second} item | item\n\
         item: NAME | \"(\" sum \")\" | \"1\" list \"0\" | {third} item\nlist: {list}\n\
         NAME: /{name}/\n{blanks}"
    )
}

#[test]
fn shared_walks_of_called_rules_allow_what_bytes_do() {
    let mut random = Random::new(29);
    let setting = Setting::new(&mut random);
    let (mut compared, mut shared, mut contexts, mut wide) = (0, 0, 0, 0);
    for _ in 0..60 {
        let text = blanks_and_atoms(&mut random);
        let Ok(constraint) = Constraint::ebnf(&text) else { continue };
        let Some(mut machine) = setting.machine(&constraint) else { continue };
        let mut masks = MaskCache::new(&setting.vocab, setting.shared.clone());
        let mut config = machine.initial();
        for _ in 0..6 {
            let mut legal = setting.compare_tokens(&mut machine, &mut masks, config, &text);
            legal.retain(|t| setting.vocab.token_bytes(*t).len() < 7);
            compared += 1;
            let Some(&token) = (!legal.is_empty()).then(|| random.pick(&legal)) else { break };
            config = machine.step_bytes(config, setting.vocab.token_bytes(token));
        }
        shared += masks
            .builder
            .memo
            .own
            .next
            .keys()
            .filter(|key| masks.builder.memo.exit_set(key.1).entries.is_empty())
            .count();
        contexts += masks.builder.memo.own.in_context.len();
        wide += masks.builder.memo.own.exits.iter().filter(|set| !set.wide.is_empty()).count();
    }
    assert!(
        compared > 250 && shared > 40 && contexts > 20 && wide > 60,
        "{compared} {shared} {contexts} {wide}"
    );
}

#[test]
fn counted_texts_near_their_bound_allow_what_bytes_do() {
    let mut random = Random::new(31);
    let setting = Setting::new(&mut random);
    let (mut compared, mut near) = (0, 0);
    for _ in 0..40 {
        let class = *random.pick(&["[a-z]", "[^-]", "(?s:.)", "[^y]", "[A-Za-z_0-9]", "[aé ]"][..]);
        let behind = *random.pick(&["", "-", "a", "-+", "[0-9]b", "é?"][..]);
        let (min, max) = (*random.pick(&[0, 1, 20, 64][..]), *random.pick(&[64, 80][..]));
        let text = format!("{class}{{{min},{max}}}{behind}x?");
        let constraint = Constraint::regex(&text).expect("a pattern");
        let mut machine = setting.machine(&constraint).expect("a program");
        let mut masks = MaskCache::new(&setting.vocab, setting.shared.clone());
        let mut config = machine.initial();
        for _ in 0..30 {
            let mut legal = setting.compare_tokens(&mut machine, &mut masks, config, &text);
            legal.retain(|t| setting.vocab.token_bytes(*t).len() < 9);
            compared += 1;
            let Some(&token) = (!legal.is_empty()).then(|| random.pick(&legal)) else { break };
            config = machine.step_bytes(config, setting.vocab.token_bytes(token));
        }
        let is_near =
            |local: &&LocalState| machine.core.local.raw_rest(**local).is_some_and(|rest| rest < 33);
        near += masks.builder.memo.own.local.keys().filter(is_near).count();
    }
    assert!(compared > 400 && near > 100, "{compared} {near}");
}
