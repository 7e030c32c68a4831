//! Wakers that panic when a timer clones them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::task::Poll;

use cooked_waker::{IntoWaker, Wake as CookedWake, WakeRef};
use timingwheel::IdleGuard;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::time::advance;
use tokio_test::{assert_ready, assert_ready_ok};

use super::*;

/// A task that panics as its waker is cloned, for as long as it is told to. In a box, whose clone is its content's.
#[derive(Debug)]
struct InClone(Arc<State>);

#[derive(Debug, Default)]
struct State {
    panics: AtomicBool,
    woken: AtomicUsize,
}

impl State {
    fn waker(self: &Arc<Self>) -> Waker {
        Box::new(InClone(self.clone())).into_waker()
    }

    fn panic_in_clone(&self, panics: bool) {
        self.panics.store(panics, Ordering::SeqCst);
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::SeqCst)
    }
}

impl Clone for InClone {
    fn clone(&self) -> Self {
        assert!(!self.0.panics.load(Ordering::SeqCst), "as the waker is cloned");
        Self(self.0.clone())
    }
}

impl WakeRef for InClone {
    fn wake_by_ref(&self) {
        self.0.woken.fetch_add(1, Ordering::SeqCst);
    }
}

impl CookedWake for InClone {}

/// A task that panics as its waker is cloned.
fn panicking() -> Arc<State> {
    let state = Arc::new(State::default());
    state.panic_in_clone(true);
    state
}

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[tokio::test(start_paused = true)]
async fn a_sleep_whose_waker_cannot_be_cloned_is_not_registered_and_can_be_polled_again() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let task = panicking();
    let waker = task.waker();
    let mut cx = Context::from_waker(&waker);
    let mut sleep = wheel.sleep(ms(10));
    assert!(panics(|| {
        let _ = sleep.poll_unconstrained(&mut cx);
    }));
    assert_eq!((assert_adds_up(&wheel).armed, task.woken()), (0, 0));
    // Its place was not taken.
    drop(wheel.try_sleep(DAY).expect("a place"));
    task.panic_in_clone(false);
    assert_pending!(sleep.poll_unconstrained(&mut cx));
    advance(ms(10)).await;
    assert_eq!(task.woken(), 1);
    assert_ready_ok!(sleep.poll_unconstrained(&mut cx));
    assert_eq!(assert_adds_up(&wheel).fired, 1);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_is_polled_again_with_a_waker_that_cannot_be_cloned_still_wakes_the_one_before() {
    let wheel = TimingWheel::new();
    let (before, task) = (Arc::new(State::default()), panicking());
    let mut sleep = register(wheel.sleep(ms(10)), &before.waker());
    for _ in 0..3 {
        let waker = task.waker();
        assert!(panics(|| {
            let _ = sleep.poll_unconstrained(&mut Context::from_waker(&waker));
        }));
    }
    advance(ms(10)).await;
    assert_eq!((before.woken(), task.woken()), (1, 0));
    // Nothing is to be cloned for one that is ready.
    assert_ready_ok!(sleep.poll_unconstrained(&mut Context::from_waker(&task.waker())));
    assert_eq!(assert_adds_up(&wheel).fired, 1);
}

fn poll_read(guard: &mut IdleGuard<DuplexStream>, waker: &Waker) -> Poll<io::Result<()>> {
    Pin::new(guard).poll_read(&mut Context::from_waker(waker), &mut ReadBuf::new(&mut [0]))
}

fn poll_write(guard: &mut IdleGuard<DuplexStream>, waker: &Waker) -> Poll<io::Result<usize>> {
    Pin::new(guard).poll_write(&mut Context::from_waker(waker), &[0; 8])
}

/// Of the two tasks of a guard, one cannot be cloned: the other is woken at its limit all the same.
#[tokio::test(start_paused = true)]
async fn a_half_of_a_guard_whose_waker_cannot_be_cloned_does_not_keep_the_other_from_its_limit() {
    let wheel = TimingWheel::new();
    let (stream, _peer) = duplex(8);
    let mut guard = wheel.idle_guard(stream).with_read_limit(ms(10)).with_write_limit(ms(20));
    let (writer, reader) = (Arc::new(State::default()), panicking());
    assert_ready_ok!(poll_write(&mut guard, &writer.waker()));
    assert_pending!(poll_write(&mut guard, &writer.waker()));
    assert!(panics(|| {
        let _ = poll_read(&mut guard, &reader.waker());
    }));
    advance(ms(20)).await;
    assert!(writer.woken() > 0);
    assert_eq!(
        assert_ready!(poll_write(&mut guard, &writer.waker())).unwrap_err().kind(),
        io::ErrorKind::TimedOut
    );
    reader.panic_in_clone(false);
    // Whether its wait counts from the poll that panicked or from now, it comes to its limit.
    let waker = reader.waker();
    if poll_read(&mut guard, &waker).is_pending() {
        advance(ms(10)).await;
        assert!(reader.woken() > 0);
        let _ = assert_ready!(poll_read(&mut guard, &waker)).unwrap_err();
    }
    drop(guard);
    assert_eq!(assert_adds_up(&wheel).pending, 0);
}
