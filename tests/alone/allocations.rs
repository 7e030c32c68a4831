//! A warm wheel allocates nothing when a timer is armed, moved, cancelled or fired, on any thread, nor when a stream with
//! an idle guard is read and written, nor for the items of a stream with a limit. `benches/instructions` shows the same
//! for each operation, but sees only the caller's thread.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::comes_to_allocate_nothing;
use futures::stream::{self, Stream};
use timingwheel::stream::StreamTimeExt;
use timingwheel::{IdleGuard, Sleep, TimingWheel};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

const TIMERS: u32 = 2_000;
/// Pending at a time.
const AT_A_TIME: u32 = 50;
const FAR: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(1);
/// So few that all of them have soon been used.
const SLOTS: u32 = 4;

fn poll(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

/// Arms, moves and cancels them one after the other.
fn cancel(wheel: &TimingWheel) {
    for _ in 0..TIMERS {
        let mut sleep = wheel.sleep(FAR);
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
        Pin::new(&mut sleep).reset(Instant::now() + 2 * FAR);
        Pin::new(&mut sleep).reset(Instant::now() + FAR);
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
    }
}

/// Lets so many fire, some at a time. Where the machine holds this thread up, some have elapsed before they are first
/// polled, and are not armed.
fn fire(runtime: &Runtime, wheel: &TimingWheel, sleeps: &mut Vec<Sleep>) {
    runtime.block_on(async {
        for _ in 0..TIMERS.div_ceil(AT_A_TIME) {
            // All slots of the first level, and some of the second.
            sleeps.extend((0..AT_A_TIME).map(|n| wheel.sleep(TICK * (2 + n % (SLOTS + 2)))));
            poll_fn(|cx| {
                sleeps.retain_mut(|sleep| poll(sleep, cx.waker()).is_pending());
                if sleeps.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    });
}

/// A task that takes no notice.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Every other operation has to wait.
#[derive(Default)]
struct EveryOther {
    is_ready: bool,
}

impl EveryOther {
    fn poll<T>(&mut self, value: T) -> Poll<io::Result<T>> {
        self.is_ready = !self.is_ready;
        if self.is_ready { Poll::Pending } else { Poll::Ready(Ok(value)) }
    }
}

impl AsyncRead for EveryOther {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(())
    }
}

impl AsyncWrite for EveryOther {
    fn poll_write(mut self: Pin<&mut Self>, _cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(buf.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(())
    }
}

/// Reads and writes for two tasks, each of which waits while the other does.
fn read_and_write(guard: &mut Pin<&mut IdleGuard<EveryOther>>, tasks: &[Waker; 2]) {
    let [mut reader, mut writer] = tasks.each_ref().map(Context::from_waker);
    for _ in 0..TIMERS {
        let mut byte = [0];
        assert!(guard.as_mut().poll_read(&mut reader, &mut ReadBuf::new(&mut byte)).is_pending());
        (**guard).get_mut().is_ready = false;
        assert!(guard.as_mut().poll_write(&mut writer, &byte).is_pending());
        assert!(guard.as_mut().poll_write(&mut writer, &byte).is_ready());
        (**guard).get_mut().is_ready = true;
        assert!(guard.as_mut().poll_read(&mut reader, &mut ReadBuf::new(&mut byte)).is_ready());
    }
}

/// Takes items that are there at every other poll of `adapter`. Each poll between needs its timer.
fn take<S: Stream>(adapter: impl FnOnce(Pin<Box<dyn Stream<Item = ()>>>) -> S) -> impl FnMut() {
    let mut is_ready = false;
    let items = stream::poll_fn(move |_| {
        is_ready = !is_ready;
        if is_ready { Poll::Pending } else { Poll::Ready(Some(())) }
    });
    let mut stream = Box::pin(adapter(Box::pin(items)));
    move || {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..TIMERS {
            assert!(stream.as_mut().poll_next(&mut cx).is_pending());
            assert!(matches!(stream.as_mut().poll_next(&mut cx), Poll::Ready(Some(_))));
        }
    }
}

#[test]
fn a_warm_wheel_allocates_nothing() {
    if super::ran_alone(a_warm_wheel_allocates_nothing) {
        return;
    }
    let runtimes = [
        // Its clock goes from one timer to the next.
        Builder::new_current_thread().enable_all().start_paused(true).build().unwrap(),
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
    ];
    for runtime in runtimes {
        let _context = runtime.enter();
        let flavor = runtime.handle().runtime_flavor();
        let wheel = TimingWheel::builder().tick(TICK).wheel_size(SLOTS as usize).build().unwrap();
        let mut sleeps = Vec::with_capacity(AT_A_TIME as usize);
        assert!(comes_to_allocate_nothing(|| cancel(&wheel)), "where timers are cancelled, {flavor:?}");
        // Not while allocations are counted, as these statistics are allocated.
        let stats = wheel.stats();
        assert!(stats.armed >= u64::from(TIMERS) && stats.cancelled == stats.armed, "{stats:?}");
        assert!(
            comes_to_allocate_nothing(|| fire(&runtime, &wheel, &mut sleeps)),
            "where timers fire, {flavor:?}"
        );
        assert!(wheel.stats().fired >= u64::from(TIMERS) / 2, "most reach the wheel");
        let before = wheel.stats().armed;
        let guard = wheel.idle_guard(EveryOther::default()).with_read_limit(FAR).with_write_limit(FAR);
        let (mut guard, tasks) =
            (pin!(guard), [Waker::from(Arc::new(Nobody)), Waker::from(Arc::new(Nobody))]);
        assert!(
            comes_to_allocate_nothing(|| read_and_write(&mut guard, &tasks)),
            "where a guarded stream has to wait, {flavor:?}"
        );
        let armed = wheel.stats().armed - before;
        assert!(armed <= 2, "one timer for a guard, and once more for its second task: {armed}");
        let before = wheel.stats().armed;
        assert!(comes_to_allocate_nothing(take(|items| items.timeout_on(&wheel, FAR))));
        assert!(comes_to_allocate_nothing(take(|items| items.idle_timeout_on(&wheel, FAR))));
        let interval = wheel.interval_at(Instant::now() + FAR, FAR);
        assert!(comes_to_allocate_nothing(take(|items| items.timeout_repeating_on(interval))));
        assert_eq!(wheel.stats().armed - before, 3, "one timer for each stream");
    }
}
