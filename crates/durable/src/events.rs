//! Events for the crate `tracing`.

/// Sends an event. Subscribers are users' code: no lock is held meanwhile, and their panics do not reach the caller.
macro_rules! event {
    ($level:ident, $($told:tt)*) => {
        $crate::error::contained(|| tracing::$level!(target: "timingwheel_durable", $($told)*))
    };
}
pub(crate) use event;
