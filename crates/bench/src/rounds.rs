//! Interleaved rounds: each round runs every arm once, and each round begins with another arm.
//!
//! # Alternatives considered
//!
//! One arm after the other was rejected: a change of the clock rate or other work on the machine
//! would then hit one arm only.

use std::time::{Duration, Instant};

use clap::Args;
use ffwd_runtime::decode::CancelToken;
use ffwd_runtime::{Error, ErrorKind, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// Rounds of a comparison, and those before them, without --rounds, --warmup and --quick.
pub(crate) const USUAL: (u16, u16) = (15, 2);
/// Rounds with --quick.
const QUICK_ROUNDS: u16 = 3;

/// Options of how often everything runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rounds")]
pub(crate) struct RoundArgs {
    /// Run every arm N times [default: 15]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Run every arm N times before the rounds that count [default: 2]
    #[arg(long, value_name = "N")]
    warmup: Option<u16>,
    /// Stop after SECONDS in all, but not before each scenario has a round
    ///
    /// Without --rounds, rounds continue until then.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    time: Option<u32>,
    /// Run 3 rounds after a warm-up of 1
    #[arg(long, conflicts_with_all = ["rounds", "warmup"])]
    quick: bool,
}

/// How often everything runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub rounds: usize,
    pub warmup: usize,
    /// The time for one comparison.
    pub time: Option<Duration>,
}

impl RoundArgs {
    /// Returns the plan for one of `parts` comparisons; `usual` is the number of rounds and of those
    /// before them where no option names others.
    pub(crate) fn plan(&self, parts: usize, usual: (u16, u16)) -> Plan {
        let rounds = match (self.rounds, self.time) {
            _ if self.quick => QUICK_ROUNDS,
            (Some(rounds), _) => rounds,
            (None, Some(_)) => u16::MAX,
            (None, None) => usual.0,
        };
        let warmup = self.warmup.unwrap_or(if self.quick { 1 } else { usual.1 });
        let time = self.time.map(|all| Duration::from_secs(u64::from(all)) / parts.max(1) as u32);
        Plan { rounds: usize::from(rounds), warmup: usize::from(warmup), time }
    }
}

/// A run of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub arm: usize,
    /// The number of the round, the warm-up included.
    pub number: usize,
    /// The number of the round; `None` in the warm-up.
    pub round: Option<usize>,
}

/// Runs the arms in turn. Returns false if the runs were interrupted, which `stop` says; the round
/// is then not complete.
///
/// # Errors
/// The first error of a run.
pub(crate) fn interleave(
    arms: usize,
    plan: Plan,
    stop: &CancelToken,
    mut run: impl FnMut(Turn) -> Result<()>,
) -> Result<bool> {
    let begun = Instant::now();
    for number in 0..plan.warmup + plan.rounds {
        let round = number.checked_sub(plan.warmup);
        if round.is_some_and(|round| round > 0) && plan.time.is_some_and(|time| begun.elapsed() > time) {
            break;
        }
        for arm in order(arms, number) {
            if stop.is_cancelled() {
                return Ok(false);
            }
            run(Turn { arm, number, round })?;
        }
    }
    Ok(!stop.is_cancelled())
}

/// Returns the order of the arms in a round. It begins with another arm each time, and every second
/// round runs backwards, so that no arm always follows the same one.
fn order(arms: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..arms).map(|i| (i + round) % arms.max(1)).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Returns a progress bar on standard error, which is hidden if that is no terminal.
pub(crate) fn progress(plan: Plan, arms: usize) -> ProgressBar {
    let (bar, template) = match plan.time {
        None => {
            let runs = (plan.warmup + plan.rounds) * arms;
            (ProgressBar::new(runs as u64), "{msg:20} {bar:30} {pos}/{len} runs, {eta} left")
        }
        Some(_) => (ProgressBar::new_spinner(), "{msg:20} {spinner} {pos} runs, {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Keeps the items with the names of --only, or all.
///
/// # Errors
/// If a name is unknown.
pub(crate) fn keep_named<T>(
    items: &mut Vec<T>,
    only: &[String],
    name: impl Fn(&T) -> &String,
    what: &str,
) -> Result<()> {
    if let Some(unknown) = only.iter().find(|only| items.iter().all(|item| name(item) != *only)) {
        let names: Vec<&str> = items.iter().map(|item| name(item).as_str()).collect();
        return Err(Error::new(ErrorKind::InvalidOption, format!("no {what} has the name {unknown:?}"))
            .hint(format!("the names are {}", names.join(", "))));
    }
    items.retain(|item| only.is_empty() || only.contains(name(item)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_runs_every_arm_and_begins_with_another() {
        let mut firsts = Vec::new();
        let plan = Plan { rounds: 6, warmup: 1, time: None };
        let mut turns = Vec::new();
        let run = |turn: Turn| {
            turns.push(turn);
            Ok(())
        };
        assert!(interleave(3, plan, &CancelToken::new(), run).unwrap());
        assert_eq!(turns.len(), 21);
        for (number, round) in turns.chunks(3).enumerate() {
            let mut arms: Vec<usize> = round.iter().map(|turn| turn.arm).collect();
            firsts.push(arms[0]);
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2]);
            assert!(round.iter().all(|turn| turn.round == number.checked_sub(1)));
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts, [0, 1, 2]);
    }

    #[test]
    fn an_interrupt_ends_a_round() {
        let (stop, plan) = (CancelToken::new(), Plan { rounds: 5, warmup: 0, time: None });
        let mut runs = 0;
        let finished = interleave(2, plan, &stop, |_| {
            runs += 1;
            if runs == 3 {
                stop.cancel();
            }
            Ok(())
        });
        assert!(!finished.unwrap());
        assert_eq!(runs, 3);
    }
}
