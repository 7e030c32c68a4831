//! The public API on a paused clock: bytes become operations on sleeps and timeouts in tasks, and an oracle of
//! deadlines checks the results. `tests/it/deadlines_model.rs` lists the checks.

#![no_main]

#[path = "../../tests/it/bytes/mod.rs"]
mod bytes;
#[path = "../../tests/it/deadlines/mod.rs"]
mod deadlines;

use libfuzzer_sys::fuzz_target;

use deadlines::ops::decode;

fuzz_target!(|bytes: &[u8]| {
    let (shape, ops) = decode(bytes);
    deadlines::run(shape, &ops);
});
