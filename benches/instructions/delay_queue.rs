//! Our delay queue: an item that is removed, and one that is handed out.

use std::hint::black_box;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::time::DelayQueue;
use timingwheel::time::delay_queue::Expired;
use tokio::runtime::{Builder, Runtime};

use crate::operation::{Operation, Prepared, REPETITIONS};

/// Items are handed out only where a clock can be paused.
pub(crate) static OURS: &[Operation] = &[
    Operation::new("delay queue: insert, remove", insert_remove),
    #[cfg(feature = "test-util")]
    Operation::new("delay queue: insert, hand out", insert_hand_out),
];

/// What an operation works on.
struct State {
    queue: DelayQueue<u32>,
    done: u32,
    /// Last, so that it outlives the queue's timer.
    runtime: Runtime,
}

impl State {
    /// With an empty queue on a wheel of this tick.
    fn new(runtime: Runtime, tick: Duration) -> Self {
        let wheel = {
            let _context = runtime.enter();
            TimingWheel::builder().tick(tick).build().expect("a wheel")
        };
        Self { queue: wheel.delay_queue(), done: 0, runtime }
    }
}

fn poll(queue: &mut DelayQueue<u32>) -> Poll<Option<u32>> {
    queue.poll_expired(&mut Context::from_waker(Waker::noop())).map(|item| item.map(Expired::into_inner))
}

/// One more, due later than the one that the queue waits for. As in [`timers`](crate::timers) a tick is a thousand times
/// as long as usual.
fn insert_remove() -> Prepared {
    let run = |state: &mut State| {
        let _context = state.runtime.enter();
        for n in 0..REPETITIONS {
            let key = state.queue.insert(n, black_box(Duration::from_secs(30_000)));
            assert_eq!(state.queue.remove(&key).into_inner(), n);
            state.done += 1;
        }
    };
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let mut state = State::new(runtime, Duration::from_secs(1));
    state.queue.insert(0, Duration::from_secs(10_000));
    assert!(poll(&mut state.queue).is_pending(), "nothing is due");
    run(&mut state);
    Prepared::new(state, run, |state| assert_eq!((state.done, state.queue.len()), (2 * REPETITIONS, 1)))
}

/// As in [`timers`](crate::timers) they are due one in each tick, and a clock is moved past all.
#[cfg(feature = "test-util")]
fn insert_hand_out() -> Prepared {
    const TICK: Duration = Duration::from_millis(1);
    /// Once round the third level, so that each time the items are in the same buckets.
    const ROUND: Duration = TICK.saturating_mul(64 * 64);
    /// Until the buckets have been in use.
    const ROUNDS: u32 = 2;
    let run = |state: &mut State| {
        let context = state.runtime.enter();
        for n in 0..REPETITIONS {
            state.queue.insert(n, black_box(TICK * (100 + n)));
        }
        assert!(poll(&mut state.queue).is_pending(), "nothing is due");
        drop(context);
        crate::timers::pass(&state.runtime, ROUND);
        let _context = state.runtime.enter();
        for n in 0..REPETITIONS {
            assert_eq!(poll(&mut state.queue), Poll::Ready(Some(n)));
            state.done += 1;
        }
        assert_eq!(poll(&mut state.queue), Poll::Ready(None));
    };
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let mut state = State::new(runtime, TICK);
    (0..ROUNDS).for_each(|_| run(&mut state));
    Prepared::new(state, run, |state| assert_eq!(state.done, (1 + ROUNDS) * REPETITIONS))
}
