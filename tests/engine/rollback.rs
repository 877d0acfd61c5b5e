//! Random walks with rollbacks over end tokens. After each step the matcher is compared with a
//! fresh one that accepted the tokens that are left, end tokens included.

use ffwd::constraint::token_machine::{Labels, TokenFsm};
use ffwd::{CompiledGrammar, Compiler, Constraint, Matcher, TokenId};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, row};

const SCHEMA: &str = r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"boolean"}},
  "b":{"enum":["abc","ab",null]},"c":{"type":"integer"}},"minProperties":1}"#;

fn compare(matcher: &mut Matcher, grammar: &CompiledGrammar, accepted: &[TokenId], eos: &[TokenId]) {
    let mut fresh = grammar.matcher();
    accepted.iter().for_each(|&t| fresh.accept_token(t).expect("accepted before"));
    assert_eq!(row(matcher), row(&mut fresh), "after {accepted:?}");
    assert_eq!(matcher.is_finished(), accepted.last().is_some_and(|t| eos.contains(t)));
    assert_eq!(matcher.is_finished(), fresh.is_finished());
    assert_eq!(matcher.is_accepting(), fresh.is_accepting());
    assert_eq!(matcher.is_terminated(), fresh.is_terminated());
    assert_eq!(matcher.num_accepted(), fresh.num_accepted());
    assert_eq!(matcher.tokens(), fresh.tokens());
    assert_eq!(matcher.forced_tokens(), fresh.forced_tokens());
    assert_eq!(matcher.is_forced(), fresh.is_forced());
    assert_eq!(matcher.shortest_completion(50), fresh.shortest_completion(50));
    assert_eq!(matcher.token_completion(), fresh.token_completion());
    let refused = (0..300).filter(|&t| matcher.allows(t) != fresh.allows(t)).count();
    assert_eq!(refused, 0, "after {accepted:?}");
}

/// Returns how many rollbacks took the end token alone, and how many took more with it.
fn walk(grammar: &CompiledGrammar, eos: &[TokenId], random: &mut Random) -> [usize; 2] {
    let mut matcher = grammar.matcher();
    let mut accepted: Vec<TokenId> = Vec::new();
    let mut over = [0; 2];
    for _ in 0..300 {
        let ended = matcher.is_finished();
        if ended || random.chance(8) {
            let most = if random.chance(60) { accepted.len().min(2) } else { accepted.len() };
            let n = random.below(most + 1);
            matcher.rollback(n);
            accepted.truncate(accepted.len() - n);
            over[0] += usize::from(ended && n == 1);
            over[1] += usize::from(ended && n > 1);
        } else if random.chance(5) {
            matcher = matcher.fork();
        } else {
            let legal: Vec<TokenId> = row(&mut matcher).into_iter().collect();
            // Rarely an end, so that the blocks of the history are crossed.
            let text: Vec<TokenId> = legal.iter().copied().filter(|t| !eos.contains(t)).collect();
            let from = if text.is_empty() || random.chance(10) { &legal } else { &text };
            let token = *random.pick(from);
            matcher.accept_token(token).expect("its bit is set");
            accepted.push(token);
        }
        compare(&mut matcher, grammar, &accepted, eos);
    }
    over
}

#[test]
fn an_end_token_is_one_of_the_tokens_rolled_back() {
    let words = TestVocab::new(5, 60, &[]);
    let special = words.vocab.token_id("{}<|pad|>").expect("a special token that ends nothing");
    let mut fsm = TokenFsm::new();
    fsm.add_transition(0, [special, 65], 1).add_transition(1, 66, 0).add_transition(1, [67, 68], 2);
    fsm.accept(1).accept(2);
    let machine = Constraint::token_fsm(&fsm);
    let labels = Labels::new(["ab", "abc", "x", "é"]).several(",");
    let constraints = [
        Constraint::regex("(ab|c)*d?").unwrap(),
        Constraint::json_schema(SCHEMA).unwrap(),
        Constraint::choice(["", "a", "abc"]).unwrap(),
        machine.behind_marker("]}").unwrap(),
        machine,
        Constraint::labels(&labels),
    ];
    let compiler = Compiler::new(words.vocab.clone());
    let mut random = Random::new(9);
    for (i, constraint) in constraints.iter().enumerate() {
        let grammar = compiler.compile(constraint).unwrap();
        let mut over = [0; 2];
        for _ in 0..8 {
            let [alone, more] = walk(&grammar, &words.eos, &mut random);
            over = [over[0] + alone, over[1] + more];
        }
        // Behind a marker of two bytes few walks end.
        let least = if i == 3 { 1 } else { 10 };
        assert!(over.iter().all(|&n| n >= least), "{i}: {over:?}");
    }
}

#[test]
#[should_panic(expected = "rollback of 3 tokens, but only 2 were accepted")]
fn more_tokens_than_were_accepted_cannot_be_rolled_back() {
    let words = TestVocab::new(5, 60, &[]);
    let grammar = Compiler::new(words.vocab.clone()).compile(&Constraint::choice(["a"]).unwrap()).unwrap();
    let mut matcher = words.after(&grammar, b"a").expect("the choice");
    matcher.accept_token(words.eos[0]).unwrap();
    matcher.rollback(3);
}
