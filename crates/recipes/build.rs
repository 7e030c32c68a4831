//! Generates the gRPC client and server of the test `generated`, from a definition that needs no `protoc`.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let call = Method::builder()
        .name("call")
        .route_name("Call")
        .input_type("String")
        .output_type("String")
        .codec_path("crate::Text")
        .build();
    let hop = Service::builder().package("recipes").name("Hop").method(call).build();
    Builder::new().compile(&[hop]);
    println!("cargo::rerun-if-changed=build.rs");
}
