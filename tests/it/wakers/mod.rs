//! Wakers are users' code: whatever they do, even if they panic, they harm neither other timers nor the driver.

mod calls;
mod panics;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio_test::assert_pending;

use crate::{DAY, HANG_GUARD, ms, paused, runtime};

/// Runs a test on the paused clock, where wakers run while the runtime parks, and on two workers.
fn on_each_runtime<F: Future>(test: impl Fn() -> F) {
    for runtime in [paused(), runtime(2)] {
        runtime.block_on(async { tokio::time::timeout(HANG_GUARD, test()).await.expect("it hangs") });
    }
}

/// A waker that calls a function.
fn on_wake(f: impl Fn() + Send + Sync + 'static) -> Waker {
    struct OnWake<F>(F);
    impl<F: Fn() + Send + Sync> Wake for OnWake<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Arc::new(OnWake(f)).into()
}

/// A waker that counts how many times it is woken.
fn counts(woken: &Arc<AtomicUsize>) -> Waker {
    let woken = woken.clone();
    on_wake(move || {
        woken.fetch_add(1, Ordering::SeqCst);
    })
}

/// Registers a sleep with a waker, of which the wheel then has the only reference.
fn arm(wheel: &TimingWheel, duration: Duration, waker: Waker) -> Sleep {
    let mut sleep = wheel.sleep(duration);
    assert_pending!(sleep.poll_unconstrained(&mut Context::from_waker(&waker)));
    sleep
}
