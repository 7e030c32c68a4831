//! Generates the gRPC client and server of the test `grpc`, from a definition that needs no `protoc`.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let method = |name: &str, route: &str| {
        let method = Method::builder().name(name).route_name(route).codec_path("crate::Text");
        method.input_type("String").output_type("String")
    };
    let hop = Service::builder()
        .package("recipes")
        .name("Hop")
        .method(method("call", "Call").build())
        .method(method("watch", "Watch").server_streaming().build())
        .method(method("send", "Send").client_streaming().build())
        .method(method("chat", "Chat").client_streaming().server_streaming().build())
        .build();
    Builder::new().compile(&[hop]);
    println!("cargo::rerun-if-changed=build.rs");
}
