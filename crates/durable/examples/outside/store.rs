//! A scheduler outside that keeps its timers in any store: a second `Durable`, whose handlers call back. So it calls back about
//! all its timers after a crash too.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel_durable::store::Near;
use timingwheel_durable::{Answer, Backoff, Builder, CallBack, Durable, Error, Kind, Outside, TimerId};
use tokio::sync::mpsc;

/// If nobody hears a call back, it is made again after this time.
const NOBODY: Duration = Duration::from_secs(5);

/// Clones are the same scheduler.
#[derive(Clone)]
pub(crate) struct OutsideStore(Arc<Inner>);

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
    const KIND: &'static str = "far-away";
}

/// A timer that was moved has another key here, so calls about its two places need no order.
fn key(near: Near) -> String {
    format!("{} at {}", near.id(), near.due())
}

impl OutsideStore {
    /// Starts the scheduler from a builder, to which it adds a handler of its own.
    /// Set the builder's clock to the one of the timers that are handed over.
    pub(crate) async fn start(builder: Builder) -> Result<Self, Error> {
        let call_back = Arc::new(Mutex::new(None::<CallBack>));
        let calls = Arc::clone(&call_back);
        let handler = move |FarAway(id, due_ms), _| {
            let call_back = calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move {
                let near = Near::new(id.parse::<TimerId>()?, Timestamp::from_millisecond(due_ms)?);
                let is_heard = call_back.is_some_and(|call_back| call_back.near(vec![near]));
                Ok(if is_heard { Answer::Done } else { Answer::Retry(NOBODY) })
            }
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
    pub(crate) fn durable(&self) -> &Durable {
        &self.0.durable
    }
}

/// One order after the other.
async fn obey(durable: Durable, mut orders: mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        // If this fails, the scan finds the timers.
        match order {
            Order::HandOver(far, ahead) => {
                let ahead = SignedDuration::try_from(ahead).unwrap_or(SignedDuration::MAX);
                let saves = far.into_iter().map(|near| {
                    let far = FarAway(near.id().to_string(), near.due().as_millisecond());
                    let call_at = near.due().saturating_sub(ahead).unwrap_or(Timestamp::MIN);
                    durable.at(call_at, &far).key(key(near)).save()
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
