//! The core: bytes say what is done to a `Hierarchy` and to an ordered map beside it. What is compared after each
//! operation is listed in `tests/it/hierarchy_model.rs`.

#![no_main]

#[path = "../../tests/it/bytes/mod.rs"]
mod bytes;
#[path = "../../tests/it/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;

use model::Model;
use model::decode::decode;

fuzz_target!(|bytes: &[u8]| {
    let (shape, ops) = decode(bytes);
    Model::run(shape, &ops);
});
