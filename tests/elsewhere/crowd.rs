//! Old timers that are dropped among very many, on the thread that armed them.

use std::sync::Arc;

use timingwheel::job::{Job, JobState};

use crate::{DAY, MOST_KEPT, arm_some, kept, on_workers, sharded, wait_until_let_go};

/// With so many pending in a shard, timers may be old.
const CROWD: usize = 32_768;
/// Before so many others, for certain. How many came is looked at now and then.
const OLD: usize = 9_216;
/// After so many others, for certain not.
const YOUNG: usize = 8_192;

#[test]
fn old_timers_dropped_among_very_many_are_gone_at_once_and_their_wakers_soon() {
    let (_runtime, wheel) = on_workers(sharded());
    let (mut sleeps, wakers) = arm_some(&wheel, CROWD + OLD, false);
    let all = sleeps.len();
    let mut rest = sleeps.split_off(CROWD);
    for (dropped, sleep) in (1..).zip(sleeps) {
        drop(sleep);
        if dropped == MOST_KEPT {
            assert_eq!(kept(&wakers[..dropped]), MOST_KEPT, "they were taken out one by one");
        }
        if dropped % 1_000 < 20 {
            assert!(kept(&wakers[..dropped]) <= MOST_KEPT);
            let stats = wheel.stats();
            assert_eq!((stats.pending, stats.cancelled), (all - dropped, dropped as u64));
        }
    }
    // Young by now, or not among very many.
    rest.drain(..).for_each(drop);
    assert_eq!(wheel.pending(), 0);
    wait_until_let_go(&wakers);
    assert_eq!(kept(&wakers), 0);
    assert_eq!((wheel.stats().fired, wheel.stats().cancelled), (0, all as u64));
}

#[test]
fn a_young_timer_takes_its_waker_with_it_also_among_very_many() {
    let (_runtime, wheel) = on_workers(sharded());
    let (mut sleeps, wakers) = arm_some(&wheel, CROWD + OLD, false);
    let old = sleeps.len() - YOUNG;
    drop(sleeps.split_off(old));
    assert_eq!(kept(&wakers[old..]), 0);
}

#[test]
fn among_fewer_timers_an_old_one_takes_its_waker_with_it() {
    let (_runtime, wheel) = on_workers(sharded());
    let (sleeps, wakers) = arm_some(&wheel, CROWD - 1, false);
    for (sleep, waker) in sleeps.into_iter().zip(wakers).take(MOST_KEPT) {
        drop(sleep);
        assert_eq!(kept(&[waker]), 0);
    }
}

#[test]
fn an_old_job_that_is_cancelled_among_very_many_lets_go_of_its_future_at_once() {
    let (runtime, wheel) = on_workers(sharded());
    let held = Arc::new(());
    let jobs: Vec<Job<_>> = (0..CROWD + OLD)
        .map(|_| {
            let held = held.clone();
            wheel.run_after(DAY, async move { drop(held) })
        })
        .collect();
    for (cancelled, job) in (1..).zip(&jobs[..2 * MOST_KEPT]) {
        assert!(job.cancel());
        assert_eq!(job.state(), JobState::Cancelled);
        let left = jobs.len() - cancelled;
        assert_eq!((Arc::strong_count(&held), wheel.pending()), (1 + left, left));
    }
    drop(runtime);
    assert_eq!(wheel.stats().cancelled, jobs.len() as u64);
}
