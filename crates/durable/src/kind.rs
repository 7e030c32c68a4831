//! Payloads with a name.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The payload of a timer: a serde type with a name that its stored timers carry.
///
/// It is stored as JSON, so that people and other languages can read it. Keep the name for as long as timers with it are
/// stored, and let the type read what its older versions wrote: serde's `default` and `alias` do that.
///
/// # Examples
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use timingwheel_durable::Kind;
///
/// #[derive(Serialize, Deserialize)]
/// struct CancelOrder {
///     order: u64,
/// }
///
/// impl Kind for CancelOrder {
///     const KIND: &'static str = "cancel-order";
/// }
/// ```
pub trait Kind: Serialize + DeserializeOwned + Send + 'static {
    /// The name by which a stored timer finds its handler.
    const KIND: &'static str;
}
