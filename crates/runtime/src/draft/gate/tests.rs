//! Tests of the gate: decisions compared with the definition, and costs that were measured wrongly.

use super::super::acceptance::OutputRegion;
use super::*;

const PLACE: ProposalContext = ProposalContext { class: OutputRegion::Structure, key: 0 };
const INSIDE: ProposalKind = ProposalKind::Forced(ForcedKind::Inside);
const FORCED: Proposal = Proposal { token: 1, kind: INSIDE, context: PLACE };

fn table(row: f64) -> CostTable {
    CostTable::from_points([(1, 1.0), (33, 1.0 + 32.0 * row)])
}

/// Returns a gate that knows the rate of forced tokens and has no verification time.
fn gate(row: f64, accepted: usize, of: usize) -> Gate {
    let mut gate = Gate::new(&table(row), Some(&table(0.0)), 24, AcceptanceRates::default());
    gate.verify_ms = 0.0;
    for i in 0..400 {
        gate.estimates.learn((INSIDE, PLACE, i % of < accepted));
    }
    gate
}

#[test]
fn the_number_taken_is_the_best_of_all() {
    for row in [0.0, 0.05, 0.2, 0.4, 0.7, 0.9, 1.0] {
        for (accepted, of) in [(1, 1), (9, 10), (2, 3), (1, 2), (1, 8), (0, 1)] {
            let mut gate = gate(row, accepted, of);
            let worth = gate.begin(64);
            let rate = gate.estimates.rate(INSIDE, PLACE);
            let ratio = |n: i32| {
                let tokens: f64 = (0..=n).map(|i| rate.powi(i)).sum();
                tokens / (1.0 + f64::from(n) * row)
            };
            let taken = gate.accepted_rows(&worth, &[FORCED; 24]);
            let most = (0..=24).map(ratio).fold(0.0, f64::max);
            assert!(ratio(taken as i32) >= most * (1.0 - 1e-9), "row {row}, rate {rate}: {taken}");
        }
    }
}

#[test]
fn rows_that_cost_as_much_as_forwards_are_not_worth_it() {
    let mut gate = gate(1.0, 9, 10);
    let worth = gate.begin(64);
    assert_eq!(gate.accepted_rows(&worth, &[FORCED; 3]), 0);
}

#[test]
fn later_rows_can_pay_for_an_unlikely_one() {
    let steps =
        |rates: &[f64]| rates.iter().map(|&rate| DraftStep { rate, ms: 0.3, call: 0.0 }).collect::<Vec<_>>();
    let worth = RoundEstimate { rows: 0, survival: 1.0, tokens: 1.0, ms: 1.0 };
    assert_eq!(best_step_count(&worth, &steps(&[0.29]), [1.0; 2]), 0);
    assert_eq!(best_step_count(&worth, &steps(&[0.29, 1.0]), [1.0; 2]), 0);
    assert_eq!(best_step_count(&worth, &steps(&[0.31, 1.0, 1.0]), [1.0; 2]), 3);
    assert_eq!(best_step_count(&worth, &steps(&[0.9, 0.1]), [1.0; 2]), 1);
}

/// Returns a table with the points that are measured.
fn measured(row: f64) -> CostTable {
    CostTable::from_points([1, 2, 3, 4, 6, 8, 12, 16, 24].map(|m| (m, 1.0 + (m - 1) as f64 * row)))
}

/// Runs rounds of eight proposals each with the given real cost of a forward. Returns the rows
/// drafted in each round and the milliseconds per token.
fn drafted(
    gate: &mut Gate,
    ms: &CostTable,
    rounds: usize,
    (accepted, of): (usize, usize),
) -> (Vec<usize>, f64) {
    let (mut rows, mut tokens, mut spent) = (Vec::new(), 0, 0.0);
    for round in 0..rounds {
        let worth = gate.begin(64);
        let taken = gate.accepted_rows(&worth, &[FORCED; 8]);
        gate.learn_forward(ModelRole::Target, 1 + taken, 64, ms.ms(1 + taken));
        spent += ms.ms(1 + taken);
        tokens += 1;
        // Proposals that are left out give no observations.
        for i in 0..taken {
            let right = (round * 7 + i * 3) % of < accepted;
            gate.learn(&FORCED, right);
            if !right {
                break;
            }
            tokens += 1;
        }
        rows.push(taken);
    }
    (rows, spent / f64::from(tokens))
}

#[test]
fn costs_measured_too_high_are_not_believed_for_good() {
    // A row costs a twentieth of a forward, but a disturbed measurement says nearly a whole one.
    let busy = measured(0.99);
    let mut gate = Gate::new(&busy, None, 8, AcceptanceRates::default());
    let (rows, _) = drafted(&mut gate, &measured(0.05), 400, (9, 10));
    assert_eq!(rows[0], 0, "the rows seem too dear at first");
    assert!(rows[300..].iter().all(|taken| *taken >= 4), "{rows:?}");
    // The engine knows it from now on.
    let mut known = AcceptanceRates::default();
    known.measured(&busy, None);
    gate.finish(&mut known, 100);
    let mut next = Gate::new(&busy, None, 8, known);
    let worth = next.begin(64);
    assert!(next.accepted_rows(&worth, &[FORCED; 8]) >= 4);
}

#[test]
fn a_draft_model_measured_too_slow_is_asked_in_time() {
    let (busy, slow) = (table(0.05), CostTable::from_points([(1, 1.2), (8, 9.6)]));
    let mut gate = Gate::new(&busy, Some(&slow), 8, AcceptanceRates::default());
    let asked = |gate: &mut Gate| {
        let worth = gate.begin(64);
        let asked = gate.calls_draft_model(&worth, PLACE, &[], 1);
        gate.learn_forward(ModelRole::Target, 1, 64, 1.0);
        asked
    };
    assert!(!asked(&mut gate));
    assert!((0..400).any(|_| asked(&mut gate)));
    // Trust outlasts a generation.
    let mut known = AcceptanceRates::default();
    let begun = (0..200).position(|_| {
        let mut gate = Gate::new(&busy, Some(&slow), 8, known.clone());
        let begun = gate.starts_draft_model(8, 500, false);
        let plain = gate.begin(64);
        gate.without_model(&plain, false);
        gate.learn_forward(ModelRole::Target, 1, 64, 1.0);
        gate.finish(&mut known, 30);
        begun
    });
    assert!(begun.is_some_and(|generations| generations > 2), "{begun:?}");
}

#[test]
fn rows_that_are_dear_are_tried_now_and_then_and_no_more() {
    for (row, accepted, of) in [(1.0, 9, 10), (0.5, 1, 3), (0.3, 1, 5), (0.1, 1, 20)] {
        let mut gate = Gate::new(&measured(row), None, 8, AcceptanceRates::default());
        (0..400).for_each(|i| gate.estimates.learn((INSIDE, PLACE, i % of < accepted)));
        let (rows, each) = drafted(&mut gate, &measured(row), 4000, (accepted, of));
        println!("row {row}, {accepted} of {of}: {} rows tried, {each}", rows.iter().sum::<usize>());
        // Without any draft a token costs one forward.
        assert!(each < 1.03, "row {row}, {accepted} of {of}: {each}");
    }
}

#[test]
fn copies_that_are_not_looked_for_would_not_be_taken() {
    let mut random = ffwd_testkit::random::Random::new(7);
    let (mut none, mut some) = (0, 0);
    for _ in 0..2000 {
        let mut gate =
            Gate::new(&table(random.below(110) as f64 / 100.0), None, 12, AcceptanceRates::default());
        gate.verify_ms = 0.0;
        let of = |kind, class| Proposal { token: 1, kind, context: ProposalContext { class, key: 3 } };
        let copy_kinds = [CopyKind::AfterLabel, CopyKind::First, CopyKind::Further];
        let [label, first, further] = copy_kinds.map(ProposalKind::Lookup);
        for class in [OutputRegion::Opening, OutputRegion::String, OutputRegion::Structure] {
            for kind in [label, first, further, INSIDE] {
                let accepted = random.below(11);
                let context = of(kind, class).context;
                (0..40).for_each(|_| gate.estimates.learn((kind, context, random.below(10) < accepted)));
            }
            let mut worth = gate.begin(64);
            for _ in 0..random.below(4) {
                gate.add(&mut worth, &FORCED);
            }
            let begin = if class == OutputRegion::Opening { label } else { first };
            let mut copy = vec![of(begin, class)];
            copy.extend((0..random.below(12)).map(|i| match i < 5 {
                true => of(further, class),
                false => of(INSIDE, class),
            }));
            let taken = gate.accepted_rows(&worth, &copy);
            match gate.may_lookup(&worth, of(first, class).context) {
                true => some += usize::from(taken > 0),
                false => {
                    assert_eq!(taken, 0);
                    none += 1;
                }
            }
        }
    }
    assert!(none > 500 && some > 500, "{none} {some}");
}

#[test]
fn in_company_a_row_costs_what_it_adds_for_all() {
    let table = CostTable::from_points([(1, 1.0), (4, 1.3), (8, 2.4), (16, 4.0)]);
    let mut gate = Gate::new(&table, None, 8, AcceptanceRates::default());
    gate.verify_ms = 0.0;
    gate.begin(64);
    assert!((gate.row(0) - 0.1).abs() < 1e-9);
    gate.set_batch_size(4);
    assert!((gate.forward(1) - 1.3 / 4.0).abs() < 1e-9, "at once, in the middle of a round");
    gate.begin(64);
    assert!((gate.forward(1) - 1.3 / 4.0).abs() < 1e-9);
    assert!((gate.row(0) - 1.1 / 4.0).abs() < 1e-9);
}

#[test]
fn the_draft_model_is_not_begun_for_a_few_tokens() {
    let draft = CostTable::from_points([(1, 0.05), (33, 0.5)]);
    let mut gate = Gate::new(&table(0.2), Some(&draft), 24, AcceptanceRates::default());
    assert!(gate.starts_draft_model(300, 500, false));
    assert!(!gate.starts_draft_model(300, 3, false));
}

#[test]
fn the_draft_model_is_begun_if_the_other_sources_leave_something_to_it() {
    let draft = CostTable::from_points([(1, 0.05), (33, 0.5)]);
    let mut gate = Gate::new(&table(0.2), Some(&draft), 24, AcceptanceRates::default());
    let copies = |gate: &mut Gate, tokens: usize| {
        let mut worth = gate.begin(64);
        worth.tokens = tokens as f64;
        worth.ms = gate.forward(1) + gate.verify_ms;
        gate.without_model(&worth, true);
    };
    (0..200).for_each(|_| copies(&mut gate, 1));
    assert!(gate.starts_draft_model(300, 50, true), "as in plain decoding");
    (0..200).for_each(|_| copies(&mut gate, 8));
    assert!(!gate.starts_draft_model(300, 50, true), "eight tokens a round");
    assert!(gate.starts_draft_model(300, 50, false), "where nothing is copied it is as it was");
    // Later generations know it, too. The first one without copies tries the draft model again.
    let mut known = AcceptanceRates::default();
    gate.finish(&mut known, 50);
    let mut next = Gate::new(&table(0.2), Some(&draft), 24, known);
    let plain = next.begin(64);
    assert!(!next.starts_draft_model(300, 50, true) && !next.starts_draft_model(300, 50, false));
    let begun = (1..100).find(|_| {
        next.without_model(&plain, false);
        next.starts_draft_model(300, 50, false)
    });
    assert!(begun.is_some_and(|rounds| (24..40).contains(&rounds)), "{begun:?}");
    assert!(!next.starts_draft_model(300, 50, true));
    // Not where it pays in any case.
    let cheap = CostTable::from_points([(1, 0.001), (33, 0.01)]);
    let mut known = AcceptanceRates::default();
    gate.finish(&mut known, 50);
    let mut next = Gate::new(&table(0.01), Some(&cheap), 24, known);
    next.begin(64);
    assert!(next.starts_draft_model(300, 50, false));
}

#[test]
fn an_open_gate_takes_all_there_is_room_for() {
    let mut gate = Gate::unlimited(5);
    let mut worth = gate.begin(0);
    assert_eq!(gate.accepted_rows(&worth, &[FORCED; 9]), 5);
    worth.rows = 4;
    assert_eq!(gate.accepted_rows(&worth, &[FORCED; 9]), 1);
    assert!(
        gate.calls_draft_model(&worth, ProposalContext::FREE, &[], 400)
            && gate.starts_draft_model(1000, 1, false)
    );
}

#[test]
fn a_draft_model_is_begun_in_time_where_the_rows_were_measured_too_dear() {
    let (busy, quick) = (measured(0.99), CostTable::from_points([(1, 0.02), (8, 0.1)]));
    let mut gate = Gate::new(&busy, Some(&quick), 8, AcceptanceRates::default());
    assert!(!gate.starts_draft_model(8, 500, false));
    let begun = (0..400).any(|_| {
        gate.begin(64);
        gate.learn_forward(ModelRole::Target, 1, 64, 1.0);
        gate.starts_draft_model(8, 500, false)
    });
    assert!(begun);
}
