//! An allocator that notes the largest single allocation of the process, and counts those of other
//! threads on request.
//!
//! # Cost
//!
//! Two loads for an allocation that is not the largest, so that threads do not compete for the line.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The system's allocator, watched.
pub(crate) struct Watching;

static LARGEST: AtomicUsize = AtomicUsize::new(0);
static COUNTS: AtomicBool = AtomicBool::new(false);
static OTHERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(true) };
}

/// Number of allocations of all threads but this one while `work` runs.
pub(crate) fn of_other_threads(work: impl FnOnce()) -> usize {
    IS_COUNTED.set(false);
    OTHERS.store(0, Ordering::SeqCst);
    COUNTS.store(true, Ordering::SeqCst);
    work();
    COUNTS.store(false, Ordering::SeqCst);
    OTHERS.load(Ordering::SeqCst)
}

/// Bytes of the largest single allocation of this process.
pub(crate) fn largest() -> usize {
    LARGEST.load(Ordering::Relaxed)
}

fn note(size: usize) {
    if size > LARGEST.load(Ordering::Relaxed) {
        LARGEST.fetch_max(size, Ordering::Relaxed);
    }
    if COUNTS.load(Ordering::Relaxed) && IS_COUNTED.get() {
        OTHERS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}
