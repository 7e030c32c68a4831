//! Where a panic says that it comes from.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local!(static PLACE: RefCell<Option<Option<String>>> = const { RefCell::new(None) });

/// The file and line that the panic of `f` names, if it panics.
pub(crate) fn panic_place<T>(f: impl FnOnce() -> T) -> Option<String> {
    static HOOK: Once = Once::new();
    // Tests on other threads panic as ever.
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let is_watched = PLACE.with_borrow_mut(|watched| match watched {
                Some(place) => {
                    *place = info.location().map(|place| format!("{}:{}", place.file(), place.line()));
                    true
                }
                None => false,
            });
            if !is_watched {
                before(info);
            }
        }));
    });
    PLACE.set(Some(None));
    let result = catch_unwind(AssertUnwindSafe(f));
    let place = PLACE.take().flatten();
    result.err().map(|_| place.expect("a panic has a place"))
}
