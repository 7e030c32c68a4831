//! Timers that are about to be saved.

use std::fmt;

use jiff::Timestamp;
use timingwheel_calendar::{Plan, Rule};
use tokio::sync::oneshot;

use crate::durable::Durable;
use crate::error::Error;
use crate::id::TimerId;
use crate::kind::Kind;
use crate::missed::Missed;
use crate::saver::Save;
use crate::store::{NewTimer, Series};

/// A timer that is about to be saved, from [`Durable::at`], [`after`](Durable::after) and [`every`](Durable::every).
#[must_use = "nothing is stored before `save`"]
pub struct Saving<'a> {
    durable: &'a Durable,
    due: Timestamp,
    kind: &'static str,
    payload: Result<Vec<u8>, serde_json::Error>,
    key: Option<String>,
    plan: Option<(Plan, Missed)>,
    replaces: bool,
}

impl<'a> Saving<'a> {
    pub(crate) fn once<K: Kind>(durable: &'a Durable, due: Timestamp, payload: &K) -> Self {
        let payload = serde_json::to_vec(payload);
        Self { durable, due, kind: K::KIND, payload, key: None, plan: None, replaces: false }
    }

    pub(crate) fn series<K: Kind>(durable: &'a Durable, name: String, plan: Plan, payload: &K) -> Self {
        let plan = Some((plan, Missed::default()));
        Self { key: Some(name), plan, replaces: true, ..Self::once(durable, Timestamp::MIN, payload) }
    }

    /// A name by which the timer is cancelled and moved, such as `order-42`. No two timers that are stored or have begun
    /// have the same: the second is refused, unless it [replaces](Self::replace) the first.
    ///
    /// Of a series it is the name. A store may bound how long it is.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Lets this timer replace the timer that has the key, if that timer has not begun.
    pub fn replace(mut self) -> Self {
        self.replaces = true;
        self
    }

    /// What becomes of runs of a series that are missed; [`Missed::once`] unless it is set. It concerns no other timer.
    pub fn missed(mut self, missed: Missed) -> Self {
        if let Some((_, policy)) = &mut self.plan {
            *policy = missed;
        }
        self
    }

    /// Stores the timer. It is durable when this is ready.
    ///
    /// Saves of many tasks go to the store together.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be stored or not. With a key it can be saved again.
    ///
    /// # Errors
    /// [`Error::KeyTaken`], [`Error::Encode`], [`Error::Stopped`], [`Error::Lost`], [`Error::Failed`]; [`Error::Never`] and
    /// [`Error::Rule`] of a series;
    /// [`Error::Store`], after which the timer is stored or not.
    pub async fn save(self) -> Result<TimerId, Error> {
        let Self { durable, mut due, kind, payload, key, plan, replaces } = self;
        let payload = payload.map_err(Error::Encode)?;
        let mut series = None;
        if let Some((plan, missed)) = plan {
            due = plan.after(durable.now()).ok_or(Error::Never)?;
            let rule = plan.to_string();
            if rule.parse::<Plan>().is_err() {
                return Err(Error::Rule(rule));
            }
            series = Some(Series::new(rule, missed));
        }
        let id = TimerId::new(due, durable.unique(due, kind));
        let (reply, saved) = oneshot::channel();
        durable.save(Save {
            timer: NewTimer { id, kind: kind.to_owned(), payload, key, series, replaces },
            reply,
        })?;
        saved.await.unwrap_or(Err(Error::Stopped))
    }
}

impl fmt::Debug for Saving<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { durable: _, due, kind, payload: _, key, plan, replaces } = self;
        f.debug_struct("Saving")
            .field("kind", kind)
            .field("due", due)
            .field("key", key)
            .field("plan", plan)
            .field("replaces", replaces)
            .finish_non_exhaustive()
    }
}
