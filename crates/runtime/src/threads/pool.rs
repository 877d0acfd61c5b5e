//! Workers that help the thread that asks with a region of work.
//!
//! A region is a number of items, cut into a part for each thread. A thread claims chunks of its own
//! part, and then of the parts of others. So it reads the memory of its items in order, and a
//! faster thread does more. The thread that asks works too, and waits only for workers that are inside: a
//! worker that is late, or has lost its core, delays the chunk that it holds and nothing else.
//!
//! # Cost
//!
//! A region allocates nothing and takes about a microsecond while the workers look out for it. They
//! do so for [`LOOK_OUT`] after their last region and then sleep. To wake one costs some
//! microseconds of the thread that asks.
//!
//! # Alternatives considered
//!
//! - The pools of candle and of rayon were rejected. Both belong to the process. The first waits for
//!   every worker in every region, so one busy core stalls all products. The second takes several
//!   times as long for a region.
//! - Parts that each thread does alone were rejected: the region is then as slow as the slowest of them.
//! - One counter for all chunks was rejected: the threads then leap over each other's items, and what
//!   one has prefetched is read by another.

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::balance::{Balance, Region};

/// Time for which a worker without work looks out for a region before it sleeps. It bridges the norms
/// between two products, and mostly the choice of a token between two forwards.
const LOOK_OUT: Duration = Duration::from_micros(100);
/// The same on a busy machine.
const SHORT_LOOK_OUT: Duration = Duration::from_micros(5);
/// Time for which the thread that asks looks out for the last worker before it sleeps. Its core is
/// then free for a worker that has lost its own.
const WAIT: Duration = Duration::from_micros(60);
/// Number of looks between two looks at the clock.
const LOOKS: u32 = 32;
/// Number of chunks for each thread: more let threads of different speeds end together, fewer take
/// less from the counter.
const CHUNKS_PER_THREAD: usize = 8;

// The parts of the gate: the number of workers inside, the number that may still enter, two flags,
// and the number of the region.
const WORKER: u64 = 1;
const TICKET: u64 = 1 << 16;
const MOST_WORKERS: usize = (1 << 14) - 1;
const WAITING: u64 = 1 << 30;
const OPEN: u64 = 1 << 31;
const REGION: u64 = 1 << 32;

fn inside(gate: u64) -> u64 {
    gate & (TICKET - 1)
}

/// Returns true if a worker that was in the region `last` may enter.
fn is_open(gate: u64, last: u64) -> bool {
    gate & OPEN != 0 && gate / REGION != last && gate & (WAITING - TICKET) != 0
}

/// A value on cache lines of its own.
#[repr(align(128))]
struct CacheLine<T>(T);

/// What runs a chunk of items.
type Run<'a> = dyn Fn(Range<usize>) + Sync + 'a;

/// The work of a region.
#[derive(Clone, Copy)]
struct Work {
    /// Valid until the region is closed and empty.
    run: *const Run<'static>,
    items: usize,
    parts: usize,
    chunk: usize,
}

impl Work {
    fn new(items: usize, parts: usize, run: &Run<'_>) -> Self {
        // SAFETY: this only forgets the lifetime; who calls the function knows it.
        let run = unsafe { std::mem::transmute::<*const Run<'_>, *const Run<'static>>(run) };
        Work { run, items, parts, chunk: items.div_ceil(parts * CHUNKS_PER_THREAD).max(1) }
    }
}

/// One worker, as others see it.
struct Slot {
    is_asleep: AtomicBool,
    /// Set by the worker before it sleeps for the first time.
    thread: OnceLock<Thread>,
}

/// What the workers and the thread that asks share.
struct Shared {
    gate: CacheLine<AtomicU64>,
    /// Of each part the first item that no thread has claimed.
    next: Box<[CacheLine<AtomicUsize>]>,
    /// Written while the gate is closed and no worker is inside.
    work: CacheLine<UnsafeCell<Work>>,
    slots: Box<[CacheLine<Slot>]>,
    /// The thread that waits, and the first panic of a worker.
    asker: Mutex<Option<Thread>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// True if workers sleep after each region, because the machine is busy.
    sleep: AtomicBool,
    stop: AtomicBool,
}

// SAFETY: `work` is written by the thread that holds `Pool::asking`, while the gate is closed and
// no worker is inside, and read inside only. The closure behind it is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Enters the region that is open, if it is not `last`, and returns its number.
    fn enter(&self, last: u64) -> Option<u64> {
        let mut gate = self.gate.0.load(Acquire);
        while is_open(gate, last) {
            match self.gate.0.compare_exchange_weak(gate, gate - TICKET + WORKER, Acquire, Acquire) {
                Ok(_) => return Some(gate / REGION),
                Err(now) => gate = now,
            }
        }
        None
    }

    /// Claims and runs chunks until none is left, those of part `own` first. Returns the number of items.
    ///
    /// # Safety
    /// The caller is inside the region, or is the thread that opened it.
    unsafe fn run_chunks(&self, own: usize) -> usize {
        // SAFETY: it is not written while a thread is inside.
        let work = unsafe { *self.work.0.get() };
        let (mut ran, mut part) = (0, own % work.parts);
        for _ in 0..work.parts {
            let (next, end) = (&self.next[part].0, work.items * (part + 1) / work.parts);
            loop {
                let from = next.fetch_add(work.chunk, Relaxed);
                if from >= end {
                    break;
                }
                let to = end.min(from + work.chunk);
                // SAFETY: the closure lives until the region is closed and empty.
                unsafe { (*work.run)(from..to) };
                ran += to - from;
            }
            part = (part + 1) % work.parts;
        }
        ran
    }

    /// The life of worker `me`.
    fn live(&self, me: usize) {
        let slot = &self.slots[me].0;
        let _ = slot.thread.set(std::thread::current());
        let (mut last, mut since) = (0, Instant::now());
        while !self.stop.load(Relaxed) {
            if let Some(region) = self.enter(last) {
                last = region;
                // SAFETY: it has entered.
                let ran = catch_unwind(AssertUnwindSafe(|| unsafe { self.run_chunks(me + 1) }));
                if let Err(panic) = ran {
                    lock(&self.panic).get_or_insert(panic);
                }
                let gate = self.gate.0.fetch_sub(WORKER, AcqRel);
                if gate & WAITING != 0 && inside(gate) == 1 {
                    lock(&self.asker).iter().for_each(Thread::unpark);
                }
                since = Instant::now();
            } else if since.elapsed() < if self.sleep.load(Relaxed) { SHORT_LOOK_OUT } else { LOOK_OUT } {
                let mut looks = 0;
                while looks < LOOKS && !is_open(self.gate.0.load(Relaxed), last) {
                    spin_loop();
                    looks += 1;
                }
            } else {
                slot.is_asleep.store(true, SeqCst);
                // A region that opens from here on sees the flag.
                while slot.is_asleep.load(SeqCst)
                    && !is_open(self.gate.0.load(SeqCst), last)
                    && !self.stop.load(SeqCst)
                {
                    std::thread::park();
                }
                slot.is_asleep.store(false, SeqCst);
                since = Instant::now();
            }
        }
    }

    /// Wakes workers until `wanted` are awake.
    fn wake(&self, wanted: usize) {
        let asleep = |slot: &&CacheLine<Slot>| slot.0.is_asleep.load(SeqCst);
        let awake = self.slots.len() - self.slots.iter().filter(asleep).count();
        for slot in self.slots.iter().filter(asleep).take(wanted.saturating_sub(awake)) {
            slot.0.is_asleep.store(false, SeqCst);
            slot.0.thread.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Closes the region and waits for the workers inside.
    fn close(&self) {
        let mut gate = self.gate.0.fetch_and(!OPEN, AcqRel);
        let since = Instant::now();
        while inside(gate) > 0 && since.elapsed() < WAIT {
            let mut looks = 0;
            while looks < LOOKS && inside(gate) > 0 {
                spin_loop();
                gate = self.gate.0.load(Acquire);
                looks += 1;
            }
        }
        if inside(gate) > 0 {
            *lock(&self.asker) = Some(std::thread::current());
            gate = self.gate.0.fetch_or(WAITING, AcqRel);
            while inside(gate) > 0 {
                std::thread::park();
                gate = self.gate.0.load(Acquire);
            }
        }
    }
}

/// The workers, and what the regions so far showed.
pub(super) struct Pool {
    shared: Arc<Shared>,
    /// Held by the thread that asks.
    asking: Mutex<Asking>,
    workers: usize,
}

struct Asking {
    /// The workers, which start with the first region.
    handles: Option<Vec<JoinHandle<()>>>,
    balance: Balance,
}

impl Pool {
    /// Creates a pool of this number of workers.
    pub(super) fn new(workers: usize) -> Pool {
        let workers = workers.min(MOST_WORKERS);
        let slot = |_| CacheLine(Slot { is_asleep: AtomicBool::new(false), thread: OnceLock::new() });
        let nothing = Work::new(0, 1, &|_| ());
        let shared = Shared {
            gate: CacheLine(AtomicU64::new(0)),
            next: (0..=workers).map(|_| CacheLine(AtomicUsize::new(0))).collect(),
            work: CacheLine(UnsafeCell::new(nothing)),
            slots: (0..workers).map(slot).collect(),
            asker: Mutex::new(None),
            panic: Mutex::new(None),
            sleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        };
        let asking = Mutex::new(Asking { handles: None, balance: Balance::default() });
        Pool { shared: Arc::new(shared), asking, workers }
    }

    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// Runs `work` over chunks of `0..items`, on this thread and at most `helpers` workers. Runs all
    /// of it here if another thread has the workers, or if they lately delayed more than they did.
    ///
    /// # Panics
    /// If `work` panics, after all threads have left it.
    pub(super) fn run(&self, items: usize, helpers: usize, work: &Run<'_>) {
        let mut asking = match self.asking.try_lock() {
            Ok(asking) => asking,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return work(0..items),
        };
        let begin = Instant::now();
        let helpers = helpers.min(self.workers).min(items.saturating_sub(1));
        if helpers == 0 || !asking.balance.pays(begin) {
            return work(0..items);
        }
        let shared = &*self.shared;
        asking.handles.get_or_insert_with(|| self.start());
        let parts = helpers + 1;
        // SAFETY: the gate is closed, no worker is inside, and this thread alone asks.
        unsafe { *shared.work.0.get() = Work::new(items, parts, work) };
        for (part, next) in shared.next[..parts].iter().enumerate() {
            next.0.store(items * part / parts, Relaxed);
        }
        let region = (shared.gate.0.load(Relaxed) / REGION + 1) % (1 << 32);
        shared.gate.0.store(region.max(1) * REGION + OPEN + helpers as u64 * TICKET, SeqCst);
        shared.wake(helpers);
        // A look at the time of the processor takes longer.
        let clock = if asking.balance.is_busy() { processor_time } else { || None };
        let (ready, before) = (Instant::now(), clock());
        // SAFETY: this thread opened the region.
        let ran = catch_unwind(AssertUnwindSafe(|| unsafe { shared.run_chunks(0) }));
        let out_of_work = Instant::now();
        let on_core = before.zip(clock()).map(|(before, now)| now.saturating_sub(before));
        shared.close();
        let panic = lock(&shared.panic).take();
        match (ran, panic) {
            (Ok(own), None) => {
                let region = Region {
                    own: own as f64 / items as f64,
                    working: out_of_work - ready,
                    on_core: on_core.unwrap_or(out_of_work - ready),
                    waiting: out_of_work.elapsed(),
                    total: begin.elapsed(),
                };
                asking.balance.observe(begin, region);
                shared.sleep.store(asking.balance.is_busy(), Relaxed);
            }
            (Err(panic), _) | (Ok(_), Some(panic)) => {
                drop(asking);
                resume_unwind(panic);
            }
        }
    }

    /// Starts the workers. If the system refuses some, the others do the work.
    fn start(&self) -> Vec<JoinHandle<()>> {
        let start = |me: usize| {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name(format!("ffwd-{me}"));
            thread
                .spawn(move || shared.live(me))
                .map_err(|error| tracing::warn!(%error, "fewer threads"))
                .ok()
        };
        (0..self.workers).map_while(start).collect()
    }
}

/// Returns the time that this thread has had a core, if the system tells.
fn processor_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes the time.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        (failed == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }
    #[cfg(not(unix))]
    None
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        let asking = self.asking.get_mut().unwrap_or_else(PoisonError::into_inner);
        for handle in asking.handles.iter().flatten() {
            handle.thread().unpark();
        }
        for handle in asking.handles.take().into_iter().flatten() {
            let _ = handle.join();
        }
    }
}
