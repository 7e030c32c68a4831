//! How long a stream's reads and writes have waited, and the one timer for both.
//!
//! A wait begins when an operation finds the stream not ready and ends when one is ready; what lies between the two
//! is up to the caller, who may poll in between, drop the operation and begin another, or do nothing. The timer is at
//! the earlier of the deadlines of the waits, or somewhere before that: a wait that ends leaves it where it is. So it
//! may come due with nothing overdue. Then whoever is woken by it polls again, and that moves it.
//!
//! Of the direction that is not being polled this holds: while it waits, either the timer is pending, no later than its
//! deadline and with its waker, or its task has been woken since it last polled.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use super::wakers::Wakers;
use crate::error::{Elapsed, Error};
use crate::timers::sleep::Sleep;
use crate::timers::tolerance::{Slack, Tolerance};
use crate::wheel::tick::{Nanos, Resolution};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Flush,
    Shutdown,
}

impl Operation {
    const fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::Read,
            Self::Write | Self::Flush | Self::Shutdown => Direction::Write,
        }
    }
}

#[derive(Debug)]
pub(super) struct Waits {
    read: Wait,
    write: Wait,
    timer: Sleep,
    wakers: Wakers,
}

// A server holds very many.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Waits>() == 96);

/// The wait of one direction.
#[derive(Debug)]
struct Wait {
    /// The longest that it may take; `MAX` is no limit.
    limit: Nanos,
    /// When it began; `MAX` while there is none. There is none without a limit.
    since: Nanos,
    /// It was a flush that was last found pending. One that is ready then ends the wait; one that finds nothing to
    /// flush does not end that of a write, which would never be overdue.
    is_of_flush: bool,
    /// Its task was woken since it last polled, so the timer need not be there for it.
    is_woken: bool,
    /// How late its end may be.
    slack: Slack,
}

impl Waits {
    /// Without limits. The timer has not been polled.
    pub(super) fn new(timer: Sleep) -> Self {
        Self { read: Wait::NONE, write: Wait::NONE, timer, wakers: Wakers::none() }
    }

    pub(super) const fn limit(&self, direction: Direction) -> Option<Duration> {
        let wait = match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        };
        match wait.limit {
            Nanos::MAX => None,
            limit => Some(limit.to_duration()),
        }
    }

    pub(super) fn set_limit(&mut self, direction: Direction, limit: Option<Duration>) {
        let wait = self.wait_and_other(direction).0;
        wait.limit = limit.map_or(Nanos::MAX, Nanos::from_duration);
        if wait.limit == Nanos::MAX {
            wait.end();
        }
        self.limits_changed();
    }

    /// Lets the ends of both directions' waits be late.
    pub(super) fn set_tolerance(&mut self, tolerance: Tolerance) {
        let slack = Slack::new(tolerance, self.timer.resolution());
        (self.read.slack, self.write.slack) = (slack, slack);
        self.limits_changed();
    }

    /// Who waits in a task of its own does not know of it.
    fn limits_changed(&mut self) {
        let resolution = self.timer.resolution();
        let earliest =
            [&self.read, &self.write].into_iter().filter_map(|w| w.needs_timer_by(resolution)).min();
        if let Some(deadline) = earliest
            && deadline != self.timer.deadline_nanos()
        {
            move_timer(&mut self.timer, None, deadline, self.read.slack);
        }
    }

    /// The operation was ready. This is in the way of every byte, so it leaves the timer alone.
    #[inline]
    pub(super) fn end(&mut self, operation: Operation) {
        match operation {
            Operation::Read => self.read.end(),
            Operation::Write | Operation::Shutdown => self.write.end(),
            Operation::Flush if self.write.is_of_flush => self.write.end(),
            Operation::Flush => {}
        }
    }

    /// The operation found the stream not ready. Ready with an error if it has waited for too long, or cannot be timed;
    /// the next one then starts anew.
    pub(super) fn poll(&mut self, operation: Operation, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.wait_and_other(operation.direction()).0.limit == Nanos::MAX {
            return Poll::Pending;
        }
        // With its budget spent a task finds every stream not ready, whatever has arrived. It is polled again soon.
        let budget = ready!(coop::poll_proceed(cx));
        let elapsed = ready!(self.poll_deadline(operation, cx));
        // A task that only ever finds its limits passed has to let others run.
        budget.made_progress();
        self.wait_and_other(operation.direction()).0.end();
        Poll::Ready(elapsed.into())
    }

    fn poll_deadline(&mut self, operation: Operation, cx: &mut Context<'_>) -> Poll<Elapsed> {
        let direction = operation.direction();
        let Self { read, write, timer, wakers } = self;
        let (wait, other) = match direction {
            Direction::Read => (read, write),
            Direction::Write => (write, read),
        };
        let resolution = timer.resolution();
        wait.is_of_flush = operation == Operation::Flush;
        let mut must_move = false;
        if !wait.is_waiting() {
            let now = timer.now();
            wait.since = now;
            // A timer that would soon wake the task for nothing is moved; any other stays, which spares the lock.
            let deadline = wait.earlier(other, resolution);
            let left = timer.deadline_nanos().0.saturating_sub(now.0);
            if deadline < timer.deadline_nanos()
                || (deadline > timer.deadline_nanos() && left < wait.limit.0 / 2)
            {
                move_timer(timer, Some(now), deadline, wait.slack);
            }
        } else if timer.has_come_to(wait.deadline(resolution)) {
            // The timer stays for the other, or is on its way out and wakes both.
            return Poll::Ready(wait.elapsed(direction, Ok(())));
        }
        wait.is_woken = false;
        wakers.register(direction, cx.waker(), other.is_waiting());
        loop {
            let deadline = wait.earlier(other, resolution);
            if must_move || deadline < timer.deadline_nanos() {
                move_timer(timer, None, deadline, wait.slack);
            }
            let result = ready!(wakers.with(|waker| timer.poll_try_wait(&mut Context::from_waker(waker))));
            // Whatever this finds, it has used the timer up, by which the other would have been woken.
            if other.needs_timer() {
                other.is_woken = true;
                wakers.wake(direction.other());
            }
            if wait.deadline(resolution) <= timer.deadline_nanos() {
                return Poll::Ready(wait.elapsed(direction, result));
            }
            must_move = true;
        }
    }

    const fn wait_and_other(&mut self, direction: Direction) -> (&mut Wait, &mut Wait) {
        match direction {
            Direction::Read => (&mut self.read, &mut self.write),
            Direction::Write => (&mut self.write, &mut self.read),
        }
    }
}

/// Moves the timer to a deadline that was rounded, if there is slack. `now` is the time, if the caller has looked.
fn move_timer(timer: &mut Sleep, now: Option<Nanos>, deadline: Nanos, slack: Slack) {
    match now {
        _ if slack != Slack::None => timer.move_to_rounded(now.unwrap_or_else(|| timer.now()), deadline),
        Some(now) => timer.move_to_at(now, deadline),
        None => timer.move_to(deadline),
    }
}

impl Wait {
    const NONE: Self = Self {
        limit: Nanos::MAX,
        since: Nanos::MAX,
        is_of_flush: false,
        is_woken: false,
        slack: Slack::None,
    };

    fn is_waiting(&self) -> bool {
        self.since != Nanos::MAX
    }

    fn end(&mut self) {
        self.since = Nanos::MAX;
    }

    /// When it has taken too long: late by as much as it may be.
    fn deadline(&self, resolution: Resolution) -> Nanos {
        let deadline = Nanos(self.since.0.saturating_add(self.limit.0));
        match self.slack.grid(resolution, self.limit) {
            Some(grid) => resolution.round_up(deadline, grid),
            None => deadline,
        }
    }

    /// Whether the timer has to wake whoever waits: not if nobody does, or if that was done.
    fn needs_timer(&self) -> bool {
        self.is_waiting() && !self.is_woken
    }

    /// By when the timer has to wake whoever waits, if it has to.
    fn needs_timer_by(&self, resolution: Resolution) -> Option<Nanos> {
        self.needs_timer().then(|| self.deadline(resolution))
    }

    /// The earlier of this deadline and the other's, if that needs the timer.
    fn earlier(&self, other: &Self, resolution: Resolution) -> Nanos {
        let deadline = self.deadline(resolution);
        other.needs_timer_by(resolution).map_or(deadline, |other| other.min(deadline))
    }

    fn elapsed(&self, direction: Direction, result: Result<(), Error>) -> Elapsed {
        match (result, direction) {
            (Ok(()), Direction::Read) => Elapsed::of_read_limit(self.limit),
            (Ok(()), Direction::Write) => Elapsed::of_write_limit(self.limit),
            (Err(error), _) => Elapsed::because(error),
        }
    }
}
