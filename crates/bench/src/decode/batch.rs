//! All scenarios together in a batch, against the same requests one after another.
//!
//! Tokens per second of processor time show the gain of a batch before it uses a second core. They
//! hold on a busy machine, too.

use std::sync::Arc;
use std::time::Instant;

use ffwd_runtime::decode::{CancelToken, Handle};
use ffwd_runtime::speedup::Spread;
use ffwd_runtime::{Engine, Error, ErrorKind, Request, Result, Scheduler, SchedulerOptions};

use super::twin;
use crate::arm::Arm;
use crate::rounds::{Plan, interleave};
use crate::scenario::ReadyScenario;
use crate::table::{Grid, short, short_or_dash};

/// The arms: how requests are decoded, and whether they form a batch.
const ARMS: [(Arm, bool); 4] = [(Arm::Off, false), (Arm::Off, true), (Arm::Exact, false), (Arm::Exact, true)];
/// Requests of a run, as multiples of the batch.
const LENGTH: usize = 3;

/// Measures batches of this size over scenarios with their largest numbers of tokens.
///
/// # Errors
/// If a generation fails, or a text in a batch differs from the one without.
pub(super) fn compare(
    engine: &Engine,
    scenarios: &[(usize, Vec<ReadyScenario>)],
    size: usize,
    plan: Plan,
    stop: &CancelToken,
) -> Result<Grid> {
    let engine = Arc::new(twin(engine, false)?);
    let count = LENGTH * size;
    let request = |arm: Arm, at: usize| {
        let (tokens, ready) = &scenarios[at % scenarios.len()];
        let ready = &ready[at / scenarios.len() % ready.len()];
        arm.apply(ready.request(true).max_tokens(*tokens)).cancel(stop)
    };
    let mut rates: [[Vec<f64>; 2]; 4] = Default::default();
    let mut texts: [Vec<String>; 4] = Default::default();
    interleave(ARMS.len(), plan, stop, |turn| {
        let (arm, batched) = ARMS[turn.arm];
        let requests = (0..count).map(|at| request(arm, at));
        let (start, processor) = (Instant::now(), processor_seconds());
        let outputs = if batched {
            let mut options = SchedulerOptions::with_batch(size);
            (options.prefix_bytes, options.queue) = (0, count);
            let scheduler = Scheduler::new(engine.clone(), options)?;
            let handles =
                requests.map(|request: Request| scheduler.submit(request)).collect::<Result<Vec<_>>>()?;
            handles.into_iter().map(Handle::wait).collect::<Result<Vec<_>>>()?
        } else {
            requests.map(|request| engine.generate(&request)).collect::<Result<Vec<_>>>()?
        };
        let seconds = [start.elapsed().as_secs_f64(), processor_seconds() - processor];
        if turn.round.is_some() && !stop.is_cancelled() {
            let tokens: usize = outputs.iter().map(|output| output.tokens.len()).sum();
            rates[turn.arm]
                .iter_mut()
                .zip(seconds)
                .for_each(|(all, seconds)| all.push(tokens as f64 / seconds));
            texts[turn.arm] = outputs.into_iter().map(|output| output.text).collect();
        }
        Ok(())
    })?;
    if texts.iter().any(|found| !found.is_empty() && *found != texts[0])
        && engine.target().is_batch_invariant()
    {
        return Err(Error::new(ErrorKind::Incomplete, "a batch does not give the texts of single requests"));
    }
    let rates = rates.map(|[seconds, processor]| [Spread::of(&seconds), Spread::of(&processor)]);
    let title = format!("{count} requests of all scenarios, in batches of {size}: tokens a second");
    let mut table = Grid::new(title, &["arm", "in turn", "batch", "ratio", "ratio per core"]);
    for (pair, (arm, _)) in rates.chunks_exact(2).zip(ARMS.iter().step_by(2)) {
        let [in_turn, batch] = [&pair[0], &pair[1]].map(|rates| rates.map(|rate| rate.median));
        let [ratio, per_core] = [0, 1].map(|at| batch[at] / in_turn[at]).map(short_or_dash);
        let names = [arm.name().to_owned(), short(in_turn[0]), short(batch[0])];
        table.rows.push(names.into_iter().chain([ratio, per_core]).collect());
    }
    Ok(table)
}

/// Processor time of this process until now; not a number if the system does not report it.
fn processor_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return f64::NAN };
    // User and system time in hundredths, the 12th and 13th number after the name in brackets.
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    numbers.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / 100.0
}
