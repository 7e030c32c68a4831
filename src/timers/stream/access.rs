//! The stream within an adapter, looked at and taken out.

/// `get_ref` and the like for an adapter that is a `pin_project!` struct with a pinned field that has them: a
/// `Fuse<S>`, or another adapter.
macro_rules! access_to_stream_within {
    ($adapter:ident, $pinned:ident) => {
        impl<S: futures::Stream> $adapter<S> {
            /// The stream within.
            #[must_use]
            pub fn get_ref(&self) -> &S {
                self.$pinned.get_ref()
            }

            /// The stream within. An item that you take through this reference does not count as an item here.
            #[must_use]
            pub fn get_mut(&mut self) -> &mut S {
                self.$pinned.get_mut()
            }

            /// The stream within, as [`get_mut`](Self::get_mut), for streams that must not be moved.
            #[must_use]
            pub fn get_pin_mut(self: std::pin::Pin<&mut Self>) -> std::pin::Pin<&mut S> {
                self.project().$pinned.get_pin_mut()
            }

            /// The stream within, without the rest.
            #[must_use]
            pub fn into_inner(self) -> S {
                self.$pinned.into_inner()
            }
        }
    };
}

pub(super) use access_to_stream_within;
