//! Live timers (begun or about to), notices that wait for them, and timers that somebody else holds for a moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use foldhash::HashMap;
use jiff::Timestamp;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Runner;
use super::settle::End;
use crate::handler::{Handler, Interrupt, Signal};
use crate::id::TimerId;
use crate::store::{Ended, Near, Series, Stored};

/// ```text
///  Beginning -> Running -> Settling
///      |                      ^
///      +----- not called -----+
/// ```
pub(super) enum Live {
    /// The store is asked.
    Beginning(Beginning),
    /// Its handler has been called, or is about to be.
    Running { attempt: Attempt, task: AbortHandle, signal: Signal },
    /// Its end is on its way to the store.
    Settling(Settling),
}

/// A timer that is about to begin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    /// An earlier call that failed may have begun it.
    pub(super) may_have_begun: bool,
    /// It was cancelled while the answer is on its way.
    pub(super) is_cancelled: bool,
    /// It is a suspect, and begins alone.
    pub(super) is_alone: bool,
}

/// The end of an attempt.
pub(super) struct Settling {
    pub(super) attempt: Attempt,
    pub(super) end: End,
    pub(super) was_called: bool,
    /// The store refused it alone, when so many calls had succeeded.
    pub(super) refused_at: Option<u64>,
}

/// An attempt.
pub(super) struct Attempt {
    /// The timer as its end is decided by it. The handler has its payload.
    pub(super) stored: Box<Stored>,
    /// The owner that began it. This instance may have joined again since.
    pub(super) epoch: u64,
    /// The series as it stood before this run, if this run has changed it.
    pub(super) series_before: Option<Series>,
    /// The series has been saved meanwhile with a rule that cannot be read here: the next run is planned by the rule before.
    pub(super) unreadable: Option<Series>,
    pub(super) handler: Arc<Handler>,
    /// Set once the handler has ended the attempt in a transaction of its own, which may yet be rolled back.
    pub(super) has_finished: Arc<AtomicBool>,
}

impl Attempt {
    pub(super) fn id(&self) -> TimerId {
        self.stored.timer.id()
    }

    /// Which this is among the attempts that the handler has answered. Those whose process ended are not among them.
    pub(super) fn number(&self) -> u32 {
        self.stored.attempts.saturating_sub(self.stored.crashes)
    }
}

/// How long the runner waits before it asks the store again for a timer that somebody holds. Then twice as long, and so on: most
/// transactions end within milliseconds.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// It waits no longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Timers that somebody else holds in the store for a moment. The store is asked for each again, soon and then less often.
#[derive(Default)]
pub(super) struct PutOff {
    held: HashMap<TimerId, Held>,
    /// The questions that wait, by when they are asked again.
    again: BTreeMap<Instant, Vec<Question>>,
}

/// A timer that was held when it was asked for last.
struct Held {
    /// What the wall clock showed when it was found held first.
    since: Timestamp,
    /// How long the next wait is.
    wait: Duration,
    /// When it is due, if it has not begun.
    due_ms: Option<i64>,
}

enum Question {
    /// A live timer that a failed call may have begun.
    Begin(Near),
    End(Ended),
}

impl PutOff {
    /// When the next of them is asked for.
    pub(super) fn at(&self) -> Option<Instant> {
        Some(*self.again.first_key_value()?.0)
    }

    /// Somebody holds the timer. Returns when the store is to be asked for it again.
    fn wait_for(&mut self, id: TimerId, due_ms: Option<i64>, now: Timestamp) -> Instant {
        let held = self.held.entry(id).or_insert(Held { since: now, wait: FIRST_WAIT, due_ms });
        let wait = held.wait;
        held.wait = (wait * 2).min(LONGEST_WAIT);
        Instant::now() + wait
    }

    /// Nobody holds the timer, or it is no longer asked for. Returns since when it was held, if it was.
    pub(super) fn is_free(&mut self, id: TimerId) -> Option<Timestamp> {
        // There are seldom any, and an empty map would hash the id all the same.
        if self.held.is_empty() {
            return None;
        }
        self.held.remove(&id).map(|held| held.since)
    }

    /// When the first of them is due that has not begun.
    pub(super) fn first_due(&self) -> Option<i64> {
        self.held.values().filter_map(|held| held.due_ms).min()
    }

    /// As after a change of the shards. Returns since when each was held.
    pub(super) fn all_are_free(&mut self) -> impl Iterator<Item = (TimerId, Timestamp)> {
        self.held.drain().map(|(id, held)| (id, held.since))
    }

    /// An end was not stored, because somebody holds its timer.
    pub(super) fn end(&mut self, ended: Ended, now: Timestamp) {
        let at = self.wait_for(ended.timer.id(), None, now);
        self.again.entry(at).or_default().push(Question::End(ended));
    }

    /// The store cannot begin this timer.
    pub(super) fn begin(&mut self, near: Near, wait: Duration) {
        self.again.entry(Instant::now() + wait).or_default().push(Question::Begin(near));
    }

    /// The store has refused an end.
    pub(super) fn refused(&mut self, ended: Ended) {
        let at = Instant::now() + LONGEST_WAIT;
        self.again.entry(at).or_default().push(Question::End(ended));
    }
}

impl Runner {
    /// Tells all handlers that run.
    pub(super) fn interrupt_all(&self, why: Interrupt) {
        for live in self.live.values() {
            if let Live::Running { signal, .. } = live {
                signal.interrupt(why);
            }
        }
    }

    /// What is known of a timer whose begin the store has answered.
    pub(super) fn beginning_of(&self, id: TimerId) -> Beginning {
        match self.live.get(&id) {
            Some(Live::Beginning(beginning)) => *beginning,
            _ => Beginning::default(),
        }
    }

    /// A timer was cancelled after it had begun.
    pub(super) fn cancelled(&mut self, id: TimerId) {
        match self.live.get_mut(&id) {
            Some(Live::Running { signal, .. }) => signal.interrupt(Interrupt::Cancelled),
            Some(Live::Beginning(beginning)) => beginning.is_cancelled = true,
            Some(Live::Settling(_)) | None => {}
        }
    }

    /// A timer was not begun, because somebody holds it.
    pub(super) fn put_off_begin(&mut self, near: Near, now: Timestamp) {
        let (id, may_begin) = (near.id(), self.may_begin());
        if !may_begin {
            self.put_off.is_free(id);
            return self.has_not_begun(id);
        }
        // It may have waited for a place before.
        let came = self.has_waited_since(id).map_or(now, |since| since.min(now));
        let at = self.put_off.wait_for(id, Some(near.due_ms), came);
        if self.beginning_of(id).may_have_begun {
            // This owner may hold it itself, by the call that failed. A load would leave out a timer that this call began.
            self.put_off.again.entry(at).or_default().push(Question::Begin(near));
        } else {
            // It takes no handler's place while it waits.
            self.has_not_begun(id);
            self.arm_at(near, at);
        }
    }

    /// Asks again, if it is time.
    pub(super) fn take_up(&mut self) {
        if self.put_off.again.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(first) = self.put_off.again.first_entry().filter(|first| *first.key() <= now) {
            for question in first.remove() {
                match question {
                    Question::Begin(near) => self.again.push(near),
                    Question::End(ended) => self.ends.push(ended),
                }
            }
        }
    }

    /// Forgets timers that a failed call may have begun. The next owner finds them.
    pub(super) fn forget_what_may_have_begun(&mut self) {
        let mut begins = self.again.take_all();
        self.put_off.again.retain(|_, questions| {
            questions.retain(|question| match question {
                Question::Begin(near) => {
                    begins.push(*near);
                    false
                }
                Question::End(_) => true,
            });
            !questions.is_empty()
        });
        for near in begins {
            if let Some(since) = self.put_off.is_free(near.id()) {
                self.comes_up_again(near.id(), since);
            }
            self.has_not_begun(near.id());
        }
    }
}
