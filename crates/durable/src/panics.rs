//! What a panic leaves behind.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// To drop it is the user's code, which may panic again: there is no end of it but to forget that.
pub(crate) fn drop_panic(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// What it says. Drops it.
pub(crate) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("of another type").to_owned();
    drop_panic(panic);
    text
}
