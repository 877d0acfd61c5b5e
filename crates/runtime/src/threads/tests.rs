//! Regions of random sizes against a loop: every item runs once, on any thread, also if others panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::*;

/// Runs a region and checks that each item ran once. Items take some time.
fn check(items: usize, helpers: usize, spin: usize) {
    let ran: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
    in_chunks(items, helpers, |range| {
        for item in range {
            (0..spin * (item % 7)).for_each(|_| std::hint::spin_loop());
            ran[item].fetch_add(1, Relaxed);
        }
    });
    assert!(ran.iter().all(|n| n.load(Relaxed) == 1), "{items} items, {helpers} helpers");
}

#[test]
fn each_item_of_a_region_runs_once() {
    for number in [1, 2, 3, 9] {
        Threads::new(number).install(|| {
            assert_eq!(super::number(), number);
            for round in 0..2000 {
                check(round * 7919 % 301, round % 5, round % 3 * 50);
                // Workers fall asleep now and then.
                if round % 500 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
    }
    check(5, 4, 1);
    assert_eq!(super::number(), 1, "nothing is installed");
}

#[test]
fn threads_that_share_a_pool_and_regions_within_regions_run_everything() {
    let threads = Threads::new(3);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let threads = &threads;
            scope.spawn(move || {
                for round in 0..300 {
                    threads.install(|| check(1 + (round + thread) % 40, 2, 20));
                }
            });
        }
    });
    let within = AtomicUsize::new(0);
    let mut items = [0; 20];
    threads.each(&mut items, |item| {
        assert_eq!(super::number(), 1, "each works alone");
        in_chunks(10, 2, |range| {
            within.fetch_add(range.len(), Relaxed);
        });
        *item += 1;
    });
    assert_eq!((items, within.into_inner()), ([1; 20], 200));
}

#[test]
fn a_panic_of_any_thread_reaches_the_one_that_asks_and_the_pool_goes_on() {
    let threads = Threads::new(3);
    for round in 0..200 {
        let at = round % 60;
        let asked = catch_unwind(AssertUnwindSafe(|| {
            threads.install(|| {
                in_chunks(60, 2, |range| {
                    for item in range {
                        (0..200).for_each(|_| std::hint::spin_loop());
                        if item == at {
                            std::panic::panic_any("the item");
                        }
                    }
                });
            });
        }));
        let panic = asked.expect_err("it panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the item"));
        threads.install(|| check(60, 2, 5));
    }
}

#[test]
fn alone_is_alone_and_what_was_installed_comes_back() {
    let (two, three) = (Threads::new(2), Threads::new(3));
    two.install(|| {
        three.install(|| assert_eq!(super::number(), 3));
        alone(|| assert_eq!(super::number(), 1));
        assert_eq!(super::number(), 2);
        let _ = catch_unwind(|| alone(|| panic!("within")));
        assert_eq!(super::number(), 2);
    });
    assert_eq!(super::number(), 1);
}

#[test]
fn what_is_installed_comes_before_what_all_share() {
    let seen = |threads: usize| Threads::new(threads).install(|| installed_or_shared(super::number));
    assert_eq!([seen(1), seen(3)], [1, 3]);
    assert_eq!(installed_or_shared(super::number), Threads::shared().number());
    assert_eq!(super::number(), 1);
}
