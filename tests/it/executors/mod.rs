//! Futures that are polled on other runtimes, on no runtime, and on changing threads. On the real clock: the tests
//! assert no time except that nothing is early.

mod kinds;
mod threads;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::{DAY, HANG_GUARD, ms, runtime};

/// Runs a runtime on a thread of its own, so that its wheel is driven, until this is dropped.
struct Running(Arc<Runtime>, Option<(tokio::sync::oneshot::Sender<()>, thread::JoinHandle<()>)>);

impl Running {
    fn new(workers: usize) -> Self {
        let runtime = Arc::new(runtime(workers));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = thread::spawn({
            let runtime = runtime.clone();
            move || drop(runtime.block_on(stopped))
        });
        Self(runtime, Some((stop, thread)))
    }

    fn wheel(&self) -> TimingWheel {
        let _guard = self.0.enter();
        TimingWheel::new()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (stop, thread) = self.1.take().unwrap();
        stop.send(()).unwrap();
        thread.join().unwrap();
    }
}

/// An executor that knows nothing of tokio: it parks its thread until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let start = std::time::Instant::now();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(HANG_GUARD);
        assert!(start.elapsed() < HANG_GUARD, "it was not woken");
    }
}

async fn not_early(sleep: Sleep) {
    let deadline = sleep.deadline();
    sleep.await;
    assert!(Instant::now() >= deadline);
}
