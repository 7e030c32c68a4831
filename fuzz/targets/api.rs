//! The public API on a paused clock: bytes say what is done to sleeps and timeouts in tasks, and an oracle of
//! deadlines what has to come of them. What is compared is listed in `tests/it/deadlines_model.rs`.

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
