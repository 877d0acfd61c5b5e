//! Whether help pays: what regions took, against what they would have taken alone.
//!
//! The thread that asks knows its share of the items and how long it worked on them, so it knows
//! how long all of them would have taken it. A worker that loses its core in the middle of a chunk
//! makes it wait, mostly for as long as the system lets another program run. Then the machine is
//! busy, and workers sleep after each region: a thread that has slept gets a core at once, one that
//! looked out for work has used its share up. If help still costs more than it saves, the thread works
//! alone for a while and tries again.
//!
//! # Cost
//!
//! Four looks at the clock for each region.
//!
//! # Alternatives considered
//!
//! Asking the system how busy it is was rejected: its numbers are averages over seconds, do not exist
//! on all systems, and do not tell what matters, which is the time that is lost.

use std::time::{Duration, Instant};

/// Time in regions after which the sums are looked at, and then halved.
const WINDOW: Duration = Duration::from_millis(24);
/// Share of the time that workers must save at least.
const LEAST_GAIN: f64 = 0.02;
/// First and longest pause without help; each pause in a row is twice as long as the one before.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(800)];
/// A wait of this time or more is for a worker that has lost its core.
const LOST_CORE: Duration = Duration::from_micros(500);
/// Share of the time in such waits from which the machine counts as busy.
const BUSY: f64 = 0.15;
/// Number of windows in a row without such a wait after which it counts as quiet.
const QUIET_WINDOWS: u32 = 20;

/// A region that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    /// Share of the items that the thread that asked ran itself.
    pub own: f64,
    /// Time from the first to the last of them, and the part of it in which the thread had a core.
    pub working: Duration,
    pub on_core: Duration,
    /// Time that it waited for workers then.
    pub waiting: Duration,
    /// Time from the question to the end, wakes and waits included.
    pub total: Duration,
}

/// Sums over the last regions.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// Seconds saved, spent, and waited for lost cores.
    saved: f64,
    spent: f64,
    lost: f64,
    /// True if the machine is busy, and the number of windows since a core was lost.
    is_busy: bool,
    calm: u32,
    /// End of the pause, and the length of the last one.
    alone_until: Option<Instant>,
    pause: Duration,
}

impl Balance {
    /// Returns true if the next region should have help.
    pub(super) fn pays(&mut self, now: Instant) -> bool {
        self.alone_until = self.alone_until.filter(|end| now < *end);
        self.alone_until.is_none()
    }

    /// Returns true if workers lose their cores to other programs.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Learns from a region that began at `begin` and had help.
    pub(super) fn observe(&mut self, begin: Instant, region: Region) {
        let total = region.total.as_secs_f64();
        // With no items of its own it would have waited all the time.
        self.saved += region.on_core.as_secs_f64() / region.own.max(1e-3) - total;
        self.spent += total;
        let lost = [region.waiting, region.working.saturating_sub(region.on_core)];
        self.lost += lost.iter().filter(|time| **time >= LOST_CORE).map(Duration::as_secs_f64).sum::<f64>();
        if self.spent >= WINDOW.as_secs_f64() {
            self.judge(begin + region.total);
        }
    }

    /// Judges a window that ends now.
    fn judge(&mut self, now: Instant) {
        self.calm = if self.lost > 0.0 { 0 } else { self.calm + 1 };
        let was_busy = self.is_busy;
        self.is_busy = self.lost > BUSY * self.spent || was_busy && self.calm < QUIET_WINDOWS;
        if self.is_busy != was_busy {
            tracing::debug!(
                busy = self.is_busy,
                lost = self.lost / self.spent,
                "other programs on the cores"
            );
        }
        if was_busy && self.saved < LEAST_GAIN * self.spent {
            self.pause = (self.pause * 2).clamp(PAUSES[0], PAUSES[1]);
            self.alone_until = Some(now + self.pause);
            (self.saved, self.spent) = (0.0, 0.0);
        } else {
            self.pause /= 2;
            (self.saved, self.spent) = (self.saved / 2.0, self.spent / 2.0);
        }
        self.lost = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs regions of a second; each has a share of own items and a wait behind a millisecond of
    /// work. Returns the number that had help.
    fn helped(balance: &mut Balance, now: &mut Instant, own: f64, wait: Duration) -> usize {
        let (end, mut helped) = (*now + 1000 * MS, 0);
        while *now < end {
            let pays = balance.pays(*now);
            let total = if pays { MS + wait } else { MS * 2 };
            if pays {
                helped += 1;
                balance.observe(*now, Region { own, working: MS, on_core: MS, waiting: wait, total });
            }
            *now += total;
        }
        helped
    }

    #[test]
    fn workers_that_only_delay_rest_and_come_back_when_the_machine_is_quiet() {
        let (mut balance, mut now) = (Balance::default(), Instant::now());
        assert_eq!(helped(&mut balance, &mut now, 0.5, MS / 10), 910, "two quiet threads");
        // Half of the items are elsewhere, and their end comes three milliseconds later.
        helped(&mut balance, &mut now, 0.5, 3 * MS);
        let busy = helped(&mut balance, &mut now, 0.5, 3 * MS);
        assert!((1..20).contains(&busy), "{busy} of a busy second");
        let quiet = helped(&mut balance, &mut now, 0.5, MS / 10);
        // The last pause reaches into it, for as long as the longest one.
        assert!(quiet > 150, "{quiet} of a quiet second");
        assert_eq!(helped(&mut balance, &mut now, 0.5, MS / 10), 910);
    }

    #[test]
    fn a_region_without_items_of_its_own_counts() {
        let (mut balance, now) = (Balance::default(), Instant::now());
        for _ in 0..100 {
            balance.observe(
                now,
                Region { own: 0.0, working: Duration::ZERO, on_core: Duration::ZERO, waiting: MS, total: MS },
            );
        }
        assert!(!balance.pays(now), "all of it was waiting");
    }
}
