//! The core: bytes become operations on a `Hierarchy` and on an ordered map beside it. `tests/it/hierarchy_model.rs`
//! lists the checks after each operation.

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
