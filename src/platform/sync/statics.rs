//! Statics of a thread and of the process. In a model each execution has its own.

/// Declares one static of each thread, and statics of the process.
macro_rules! statics {
    (
        thread static $of_thread:ident: $thread_type:ty = $thread_value:expr;
        $($(#[$doc:meta])* static $name:ident: $type:ty = $value:expr;)*
    ) => {
        #[cfg(not(all(test, loom)))]
        thread_local!(static $of_thread: $thread_type = $thread_value);
        #[cfg(all(test, loom, not(shuttle)))]
        loom::thread_local!(static $of_thread: $thread_type = $thread_value);
        #[cfg(all(test, loom, shuttle))]
        shuttle::thread_local!(static $of_thread: $thread_type = $thread_value);
        $(
            #[cfg(not(all(test, loom)))]
            $(#[$doc])*
            static $name: $type = $value;
            #[cfg(all(test, loom, not(shuttle)))]
            loom::lazy_static!(static ref $name: $type = $value;);
            #[cfg(all(test, loom, shuttle))]
            shuttle::lazy_static!(static ref $name: $type = $value;);
        )*
    };
}
pub(crate) use statics;
