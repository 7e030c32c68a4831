//! The payloads of timers, in two shapes, and their kinds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use timingwheel_durable::Kind;

use crate::script::Job;

/// A payload of the kind `K`, as a program reads it that knows the new shape or not.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order<const K: u8, const NEW: bool> {
    pub(crate) job: Job,
    shape: Shape<NEW>,
}

impl<const K: u8, const NEW: bool> Order<K, NEW> {
    pub(crate) fn new(job: Job, is_new: bool) -> Self {
        Self { job, shape: Shape(is_new) }
    }
}

struct Shape<const NEW: bool>(bool);

impl<const NEW: bool> Serialize for Shape<NEW> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(if self.0 { "new" } else { "old" })
    }
}

impl<'de, const NEW: bool> Deserialize<'de> for Shape<NEW> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let is_new = String::deserialize(from)? == "new";
        if is_new && !NEW {
            return Err(serde::de::Error::unknown_variant("new", &["old"]));
        }
        Ok(Self(is_new))
    }
}

impl<const K: u8, const NEW: bool> Kind for Order<K, NEW> {
    const KIND: &'static str = kind(K);
}

pub(crate) const fn kind(kind: u8) -> &'static str {
    match kind {
        0 => "a",
        1 => "b",
        _ => "c",
    }
}

pub(crate) fn payload(job: &Job) -> Vec<u8> {
    let order = Order::<0, true>::new(job.clone(), job.is_new);
    serde_json::to_vec(&order).expect("a payload is JSON")
}
