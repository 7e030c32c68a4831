//! The place that a panic names.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local!(static LAST: RefCell<Option<Panic>> = const { RefCell::new(None) });

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Panic {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) text: String,
}

/// Begins to note the panics of all threads. A process has one hook, so this is the only one of this program.
pub(crate) fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            LAST.set(Some(Panic::new(info)));
            before(info);
        }));
    });
}

/// Takes the last panic of this thread.
pub(crate) fn last_panic() -> Option<Panic> {
    LAST.take()
}

/// The panic of `f`, if it panics.
pub(crate) fn panic_in<T>(f: impl FnOnce() -> T) -> Option<Panic> {
    note_panics();
    catch_unwind(AssertUnwindSafe(f)).err().map(|_| last_panic().expect("it was noted"))
}

/// The text of the panic of `f`.
pub(crate) fn panic_text<T>(f: impl FnOnce() -> T) -> String {
    panic_in(f).expect("it did not panic").text
}

/// The file and line that the panic of `f` names, if it panics.
#[cfg(feature = "test-util")]
pub(crate) fn panic_place<T>(f: impl FnOnce() -> T) -> Option<String> {
    panic_in(f).map(|panic| format!("{}:{}", panic.file, panic.line))
}

impl Panic {
    fn new(info: &PanicHookInfo<'_>) -> Self {
        let place = info.location().expect("a panic has a place");
        Self { file: place.file().into(), line: place.line(), text: text(info.payload()) }
    }
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref().cloned()).unwrap_or_default()
}
