//! The traits of each type.

use std::fmt::{Debug, Display};
use std::future::{Future, Pending, Ready};
use std::hash::Hash;
use std::marker::PhantomPinned;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use super::time::error::{Elapsed, Error};
use super::time::{Instant, Interval, MissedTickBehavior, Sleep, Timeout};

macro_rules! implements {
    ($type:ty: $bound:path) => {{
        #[allow(dead_code, reason = "where the bound holds")]
        trait Otherwise {
            const IMPLEMENTED: bool = false;
        }
        impl<T> Otherwise for T {}
        struct Probe<T>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "where the bound does not hold")]
        impl<T: $bound> Probe<T> {
            const IMPLEMENTED: bool = true;
        }
        (concat!(stringify!($type), ": ", stringify!($bound)), Probe::<$type>::IMPLEMENTED)
    }};
}

macro_rules! each {
    ($($type:ty),+ => $bounds:tt) => { [$(each!(@ $type => $bounds)),+].concat() };
    (@ $type:ty => ($($bound:path),+)) => { [$(implements!($type: $bound)),+] };
}

type Io = std::io::Error;

pub(crate) fn traits() -> Vec<(&'static str, bool)> {
    each!(
        Sleep, Timeout<Ready<u8>>, Timeout<Pending<PhantomPinned>>, Timeout<Ready<Rc<u8>>>,
        Timeout<Pending<std::cell::Cell<u8>>>, Interval, Instant, MissedTickBehavior, Elapsed, Error
        => (
            Send, Sync, Unpin, UnwindSafe, RefUnwindSafe, Debug, Display, Clone, Copy, Default, PartialEq, Eq,
            PartialOrd, Ord, Hash, std::error::Error, Future, Into<Io>
        )
    )
}
