//! Generates the gRPC clients and servers of the test `grpc` and the example `tonic`, from definitions that need no `protoc`.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let method = |name: &str, route: &str| {
        let method = Method::builder().name(name).route_name(route).codec_path("crate::text::Text");
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
    let work =
        Service::builder().package("recipes").name("Work").method(method("run", "Run").build()).build();
    Builder::new().compile(&[hop, work]);
    println!("cargo::rerun-if-changed=build.rs");
}
