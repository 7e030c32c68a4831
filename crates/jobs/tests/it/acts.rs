//! Wakers and keys that act as they are used. The tests of the purgatory have them too.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

type Act = Box<dyn Fn() + Send + Sync>;

/// Acts when it is woken, and when it is dropped.
struct Acts(Act, Act);

impl Wake for Acts {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        (self.1)();
    }
}

pub(crate) fn when_woken(act: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Acts(Box::new(act), Box::new(|| ()))).into()
}

pub(crate) fn when_dropped(act: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Acts(Box::new(|| ()), Box::new(act))).into()
}

/// What is done with a key, or with code that has one.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Use {
    Hash,
    Eq,
    CloneOrDrop,
    /// In a condition, a schedule or a closure.
    Call,
}

/// Acts whatever is done with it. All have the same hash.
pub(crate) struct Key(pub(crate) u32, Arc<dyn Fn(u32, Use) + Send + Sync>);

/// Keys that act so, by their numbers.
pub(crate) fn keys_that(act: impl Fn(u32, Use) + Send + Sync + 'static) -> impl Fn(u32) -> Key + Clone {
    let act = Arc::new(act);
    move |number| Key(number, act.clone())
}

impl Key {
    pub(crate) fn act(&self, what: Use) {
        (self.1)(self.0, what);
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        self.act(Use::CloneOrDrop);
        Self(self.0, self.1.clone())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.act(Use::Eq);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, _: &mut H) {
        self.act(Use::Hash);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.act(Use::CloneOrDrop);
    }
}
