//! Comparison of two runs: ratios with the range in which they are known, and what is noise.

use std::path::Path;

use ffwd_runtime::error::Place;
use ffwd_runtime::extract::corpus::read_text;
use ffwd_runtime::{Error, ErrorKind, Result};

use super::report::{ArmResult, DecodeResults};
use crate::environment::Environment;
use crate::table::{Grid, ms, short};

/// The verdict on a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Noise,
    Slower,
    Faster,
}

/// The file of an earlier run.
#[derive(serde::Deserialize)]
pub(super) struct EarlierRun {
    about: Environment,
    #[serde(flatten)]
    results: DecodeResults,
}

/// Reads the results of an earlier run.
pub(super) fn read(file: &Path) -> Result<EarlierRun> {
    serde_json::from_str(&read_text(file)?).map_err(|e| {
        Error::new(ErrorKind::InvalidJson, format!("not the results of `ffwd bench decode --json`: {e}"))
            .at(Place::File(file.into()))
            .hint("results of another version may have other fields; measure again")
    })
}

/// Compares the arms that both runs have. Returns the table, and notes on it.
pub(super) fn compare(
    environment: &Environment,
    new: &DecodeResults,
    old: &EarlierRun,
) -> (Grid, Vec<String>) {
    let header = ["scenario", "arm", "old, ms", "new, ms", "new / old", "from", "to", "verdict"];
    let mut table = Grid::new("compared with the earlier run", &header);
    let mut notes: Vec<String> = environment
        .differences(&old.about)
        .into_iter()
        .map(|difference| format!("warning: the runs are hard to compare, {difference}"))
        .collect();
    let mut counts = [0; 3];
    for scenario in &new.scenarios {
        let Some(before) = old.results.scenarios.iter().find(|s| s.name == scenario.name) else {
            notes.push(format!("note: the earlier run lacks the scenario {:?}", scenario.name));
            continue;
        };
        for arm in &scenario.arms {
            let Some(was) = before.arms.iter().find(|was| (was.arm, was.threads) == (arm.arm, arm.threads))
            else {
                continue;
            };
            let (low, high) = range(arm, was);
            let change = verdict(low, high);
            counts[change as usize] += 1;
            table.rows.push(vec![
                scenario.name.clone(),
                arm.name(),
                ms(was.seconds.median),
                ms(arm.seconds.median),
                short(arm.seconds.median / was.seconds.median.max(f64::MIN_POSITIVE)),
                short(low),
                short(high),
                change.name().to_owned(),
            ]);
            if arm.text != was.text {
                notes.push(format!("note: in {:?} the text of {} has changed", scenario.name, arm.name()));
            }
        }
    }
    let [noise, slower, faster] = counts;
    notes.push(format!("{slower} slower, {faster} faster, {noise} within the noise"));
    (table, notes)
}

/// Returns the range of the ratio of the new time to the old one: the quotients of the ranges in
/// which the two medians are known.
fn range(new: &ArmResult, old: &ArmResult) -> (f64, f64) {
    let ((new_low, new_high), (old_low, old_high)) = (new.seconds.notch(), old.seconds.notch());
    let by = |a: f64, b: f64| a.max(0.0) / b.max(f64::MIN_POSITIVE);
    (by(new_low, old_high), by(new_high, old_low))
}

fn verdict(low: f64, high: f64) -> Change {
    match (low, high) {
        (low, _) if low > 1.0 => Change::Slower,
        (_, high) if high < 1.0 => Change::Faster,
        _ => Change::Noise,
    }
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Change::Noise => "noise",
            Change::Slower => "slower",
            Change::Faster => "faster",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_around_one_is_noise() {
        assert_eq!(verdict(0.98, 1.03), Change::Noise);
        assert_eq!(verdict(1.01, 1.2), Change::Slower);
        assert_eq!(verdict(0.5, 0.99), Change::Faster);
    }
}
