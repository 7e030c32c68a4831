//! A store without its type, so that `Durable` has no type parameter. One allocation for each call, which is one for each
//! batch.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;

use super::{
    Ask, Begun, Counts, Ended, Hint, Loaded, Move, Near, NewTimer, Owner, Page, Removal, Renewed, Saved,
    Settled, Store, Stored, Taken, ToBegin, Which,
};
use crate::error::Error;
use crate::id::TimerId;

/// What a call will answer.
pub(crate) type Answered<T> = BoxFuture<'static, Result<T, Error>>;

/// [`Store`], for all stores one type.
pub(crate) trait ErasedStore: Send + Sync {
    fn check(&self, timer: &NewTimer) -> Result<(), Error>;
    fn damaged(&self) -> u64;
    fn is_shared(&self) -> bool;
    fn renew(self: Arc<Self>, owner: Owner, from: Option<Timestamp>) -> Answered<Renewed>;
    fn hint(self: Arc<Self>, owner: Owner) -> BoxFuture<'static, Hint>;
    fn is_mine(&self, owner: Owner, timer: Near) -> bool;
    fn number(&self, owner: Owner, count: u64, due: Timestamp, kind: &str) -> u64;
    fn join(self: Arc<Self>, lease: Duration, has_handlers: bool) -> Answered<Owner>;
    fn leave(self: Arc<Self>, owner: Owner) -> Answered<u64>;
    fn save(self: Arc<Self>, timers: Vec<NewTimer>) -> Answered<Vec<Saved>>;
    fn load(self: Arc<Self>, owner: Owner, ask: Ask) -> Answered<Loaded>;
    fn begin(self: Arc<Self>, owner: Owner, ask: ToBegin) -> Answered<Vec<Begun>>;
    fn settle(self: Arc<Self>, owner: Owner, ends: Vec<Ended>) -> Answered<Vec<Settled>>;
    fn cancel(self: Arc<Self>, which: Vec<Which>) -> Answered<Vec<Removal>>;
    fn get(self: Arc<Self>, which: Which) -> Answered<Option<Stored>>;
    fn reschedule(self: Arc<Self>, which: Which, due: Timestamp) -> Answered<Move>;
    fn unbury(self: Arc<Self>, ids: Vec<TimerId>, due: Option<Timestamp>) -> Answered<Vec<Taken>>;
    fn list(self: Arc<Self>, page: Page) -> Answered<Vec<Stored>>;
    fn count(self: Arc<Self>) -> Answered<Counts>;
}

macro_rules! erased {
    ($($call:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl<S: Store> ErasedStore for S {
            fn check(&self, timer: &NewTimer) -> Result<(), Error> {
                S::check(timer).map_err(Error::store::<S>)
            }

            fn damaged(&self) -> u64 {
                Store::damaged(self)
            }

            fn is_shared(&self) -> bool {
                Store::is_shared(self)
            }

            fn join(self: Arc<Self>, lease: Duration, has_handlers: bool) -> Answered<Owner> {
                async move {
                    let joined = if has_handlers {
                        Store::join(&*self, lease).await
                    } else {
                        Store::join_without_handlers(&*self, lease).await
                    };
                    joined.map_err(Error::store::<S>)
                }
                .boxed()
            }

            fn hint(self: Arc<Self>, owner: Owner) -> BoxFuture<'static, Hint> {
                async move { Store::hint(&*self, owner).await }.boxed()
            }

            fn is_mine(&self, owner: Owner, timer: Near) -> bool {
                Store::is_mine(self, owner, timer)
            }

            fn number(&self, owner: Owner, count: u64, due: Timestamp, kind: &str) -> u64 {
                Store::number(self, owner, count, due, kind)
            }

            $(
                fn $call(self: Arc<Self>, $($name: $type),*) -> Answered<$answer> {
                    async move { Store::$call(&*self, $($name),*).await.map_err(Error::store::<S>) }.boxed()
                }
            )*
        }
    };
}

erased! {
    leave(owner: Owner) -> u64;
    renew(owner: Owner, from: Option<Timestamp>) -> Renewed;
    save(timers: Vec<NewTimer>) -> Vec<Saved>;
    load(owner: Owner, ask: Ask) -> Loaded;
    begin(owner: Owner, ask: ToBegin) -> Vec<Begun>;
    settle(owner: Owner, ends: Vec<Ended>) -> Vec<Settled>;
    cancel(which: Vec<Which>) -> Vec<Removal>;
    get(which: Which) -> Option<Stored>;
    reschedule(which: Which, due: Timestamp) -> Move;
    unbury(ids: Vec<TimerId>, due: Option<Timestamp>) -> Vec<Taken>;
    list(page: Page) -> Vec<Stored>;
    count() -> Counts;
}
