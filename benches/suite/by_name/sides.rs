//! The sides of a comparison, on one runtime: timers by name, by the handle of the runtime's own wheel, and tokio's.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use timingwheel::{TimingWheel, time};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::task::coop::unconstrained;

use crate::support::{Scale, rounds, thread_cpu_time};

/// Of a timeout that never elapses.
pub(super) const FAR: Duration = Duration::from_secs(30);
/// Of timers that are pending meanwhile. Longer than all rounds take, and shorter than `FAR`.
const EARLIER: Duration = Duration::from_secs(20);

pub(super) trait Timers: Clone + Send + Sync + 'static {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static;
    fn timeout<F: Future<Output = ()> + Send + 'static>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<(), impl Sized>> + Send + 'static;
}

#[derive(Clone)]
pub(super) struct ByName;

impl Timers for ByName {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        time::sleep(duration)
    }

    fn timeout<F: Future<Output = ()> + Send + 'static>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<(), impl Sized>> + Send + 'static {
        time::timeout(duration, future)
    }
}

/// By a handle.
impl Timers for TimingWheel {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.sleep(duration)
    }

    fn timeout<F: Future<Output = ()> + Send + 'static>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<(), impl Sized>> + Send + 'static {
        self.timeout(duration, future)
    }
}

#[derive(Clone)]
pub(super) struct Tokio;

impl Timers for Tokio {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep(duration)
    }

    fn timeout<F: Future<Output = ()> + Send + 'static>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<(), impl Sized>> + Send + 'static {
        tokio::time::timeout(duration, future)
    }
}

/// What a side is put under.
pub(super) trait Load {
    /// Does it once, and returns what it took, in the same order each time.
    fn run<T: Timers>(&self, rig: &Rig, timers: T) -> Vec<f64>;

    /// How many timers that arms.
    fn armed(&self) -> usize;
}

/// What a load found in a round.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) by_name: Vec<f64>,
    pub(super) by_handle: Vec<f64>,
    pub(super) tokio: Vec<f64>,
}

/// A runtime whose own wheel is there.
pub(super) struct Rig {
    pub(super) wheel: TimingWheel,
    /// Last, so that it outlives its timers.
    pub(super) runtime: Runtime,
}

impl Rig {
    pub(super) fn workers(workers: usize) -> Self {
        Self::new(Builder::new_multi_thread().worker_threads(workers))
    }

    pub(super) fn current_thread() -> Self {
        Self::new(&mut Builder::new_current_thread())
    }

    pub(super) fn new(builder: &mut Builder) -> Self {
        let runtime = builder.enable_all().build().expect("a runtime");
        Self { wheel: runtime.block_on(async { time::wheel() }), runtime }
    }

    /// Puts all sides under `load`, in turn in each round.
    ///
    /// # Panics
    /// If the timers by name and by handle did not reach the wheel.
    pub(super) fn rounds(&self, scale: Scale, load: &impl Load) -> Vec<Round> {
        let before = self.wheel.stats();
        let mut sides: [&mut dyn FnMut() -> Vec<f64>; 3] =
            [&mut || load.run(self, ByName), &mut || load.run(self, self.wheel.clone()), &mut || {
                load.run(self, Tokio)
            }];
        // The first does not count: in it caches and pools get warm.
        let found = rounds(scale.rounds() + 1, &mut sides).split_off(1);
        let armed = self.wheel.stats().armed - before.armed;
        let expected = 2 * load.armed() * (scale.rounds() + 1);
        assert_eq!(armed, expected as u64, "timers that reached the wheel");
        found
            .into_iter()
            .map(|round| {
                let [by_name, by_handle, tokio] = <[_; 3]>::try_from(round).expect("as many as sides");
                Round { by_name, by_handle, tokio }
            })
            .collect()
    }

    /// As [`rounds`](Self::rounds), beside [earlier](Self::earlier) timers.
    pub(super) fn rounds_beside_earlier(&self, scale: Scale, load: &impl Load) -> Vec<Round> {
        let earlier = self.earlier();
        let found = self.rounds(scale, load);
        assert!(!earlier.is_finished(), "the rounds took {EARLIER:?}: the earlier timers have fired");
        earlier.abort();
        found
    }

    /// Has both sides wait for a timer that is due before those of a load, as is one in every server. Otherwise each of a
    /// load's would be the earliest, and tokio would write to an eventfd for each while its worker is busy.
    pub(super) fn earlier(&self) -> JoinHandle<()> {
        /// Until the worker has looked at its sockets.
        const SEEN: Duration = Duration::from_millis(5);
        let ours = self.wheel.clone();
        let earlier = self.runtime.spawn(async move {
            tokio::join!(ours.sleep(EARLIER), tokio::time::sleep(EARLIER));
        });
        self.runtime.block_on(async { tokio::time::sleep(SEEN).await });
        earlier
    }

    /// Does `work` in a task, with its waker, and without a budget that would cut it short.
    pub(super) fn in_task<R: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut Context<'_>) -> R + Send + 'static,
    ) -> R {
        let task = unconstrained(poll_fn(move |cx| Poll::Ready(work(cx))));
        self.runtime.block_on(async { tokio::spawn(task).await.expect("the task does not panic") })
    }
}

/// The CPU time that `work` takes on this thread, in nanoseconds.
pub(super) fn thread_cpu(work: impl FnOnce()) -> f64 {
    let before = thread_cpu_time();
    work();
    (thread_cpu_time() - before).as_nanos() as f64
}
