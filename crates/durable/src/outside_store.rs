//! A scheduler outside that keeps its timers in any store.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::backoff::Backoff;
use crate::builder::Builder;
use crate::durable::Durable;
use crate::error::Error;
use crate::handler::{Answer, Kind};
use crate::id::{TimerId, timestamp};
use crate::outside::{CallBack, Outside};
use crate::store::Near;

/// If nobody hears a call back, it is made again after this time.
const NOBODY: Duration = Duration::from_secs(5);

/// A scheduler outside that keeps its timers in a store of its own, which can be any [`Store`](crate::store::Store). Clones
/// are the same scheduler.
///
/// The scheduler is a [`Durable`] itself, and its handlers call back. So it calls back about all its timers after a
/// crash too.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), timingwheel_durable::Error> {
/// use std::time::Duration;
///
/// use timingwheel::TimingWheel;
/// use timingwheel_durable::{Durable, MemoryStore, OutsideStore};
///
/// let wheel = TimingWheel::new();
/// let outside = OutsideStore::start(Durable::builder(&wheel, MemoryStore::new())).await?;
/// let hour = Duration::from_secs(3_600);
/// let durable = Durable::builder(&wheel, MemoryStore::new()).outside(outside, hour).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OutsideStore(Arc<Inner>);

struct Inner {
    durable: Durable,
    call_back: Arc<Mutex<Option<CallBack>>>,
    orders: mpsc::UnboundedSender<Order>,
}

enum Order {
    HandOver(Vec<Near>, Duration),
    Forget(Vec<Near>),
}

/// A timer to be called back about, and when it is due.
#[derive(Serialize, Deserialize)]
struct FarAway(String, i64);

impl Kind for FarAway {
    const KIND: &'static str = "timingwheel-durable/far-away";
}

/// A timer that was moved has another key here, so calls about its two places need no order.
fn key(near: Near) -> String {
    format!("{} at {}", near.id(), near.due_ms)
}

impl OutsideStore {
    /// Starts the scheduler from a builder, to which it adds a handler of its own.
    ///
    /// Set the builder's clock to the one of the timers that are handed over.
    ///
    /// # Cancel safety
    /// As [`Builder::start`].
    ///
    /// # Errors
    /// As [`Builder::start`].
    ///
    /// # Panics
    /// If it is not called within a tokio runtime.
    pub async fn start(builder: Builder) -> Result<Self, Error> {
        let call_back = Arc::new(Mutex::new(None::<CallBack>));
        let calls = Arc::clone(&call_back);
        let handler = move |FarAway(id, due_ms), _| {
            let heard = id.parse::<TimerId>().map(|id| {
                let call_back = calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
                call_back.is_some_and(|call_back| call_back.near(vec![Near { due_ms, id }]))
            });
            async move { Ok(if heard? { Answer::Done } else { Answer::Retry(NOBODY) }) }
        };
        // Until somebody hears it.
        let retry = Backoff::fixed(NOBODY).tries(u32::MAX);
        let durable = builder.on(handler).retry::<FarAway>(retry).start().await?;
        let (orders, to_do) = mpsc::unbounded_channel();
        tokio::spawn(obey(durable.clone(), to_do));
        Ok(Self(Arc::new(Inner { durable, call_back, orders })))
    }

    /// The timers that call back.
    #[must_use]
    pub fn durable(&self) -> &Durable {
        &self.0.durable
    }
}

/// One order after the other.
async fn obey(durable: Durable, mut orders: mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        // If this fails, the scan finds the timers.
        match order {
            Order::HandOver(far, ahead) => {
                let ahead = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
                let saves = far.into_iter().map(|near| {
                    let far = FarAway(near.id().to_string(), near.due_ms);
                    durable.at(timestamp(near.due_ms.saturating_sub(ahead)), &far).key(key(near)).save()
                });
                drop(join_all(saves).await);
            }
            Order::Forget(timers) => {
                drop(join_all(timers.into_iter().map(|near| durable.cancel(key(near)))).await);
            }
        }
    }
}

impl Outside for OutsideStore {
    fn begins(&self, call_back: CallBack) {
        *self.0.call_back.lock().unwrap_or_else(PoisonError::into_inner) = Some(call_back);
    }

    fn hand_over(&self, far: Vec<Near>) {
        let call_back = self.0.call_back.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(call_back) = call_back {
            // The task lives as long as this sender.
            drop(self.0.orders.send(Order::HandOver(far, call_back.ahead())));
        }
    }

    fn forget(&self, timers: Vec<Near>) {
        drop(self.0.orders.send(Order::Forget(timers)));
    }
}

impl fmt::Debug for OutsideStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutsideStore").field("durable", &self.0.durable).finish_non_exhaustive()
    }
}
