//! Deadlines over the wire, without a network. Real servers call each other in the recipes' tests.

mod bodies;
mod client;
mod header;
mod order;
mod server;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::time::Duration;

use http::header::HeaderName;
use http::{Request, Response};
use timingwheel_deadline::wire::{Error, Header};
use timingwheel_deadline::{Deadline, Ended};

const HEADER: HeaderName = HeaderName::from_static("x-time-left");

fn millis() -> Header {
    Header::Millis(HEADER)
}

fn request(name: &'static str, value: &str) -> Request<String> {
    Request::builder().uri("/").header(name, value).body(String::new()).unwrap()
}

/// What the handler found: the time that is left, or `None` without a limit.
fn left(request: Request<String>) -> Ready<Result<Response<String>, Infallible>> {
    let left = Deadline::current().expect("each request has one").remaining();
    let carried: &Deadline = request.extensions().get().expect("each request carries it");
    assert_eq!(carried.remaining(), left);
    let mut response = Response::new(String::new());
    response.extensions_mut().insert(left);
    ready(Ok(response))
}

/// What [`left`] found.
fn found<B>(response: &Response<B>) -> Option<Duration> {
    *response.extensions().get::<Option<Duration>>().expect("the handler was called")
}

/// Answers with the time that the request's header says.
fn echo(request: Request<String>) -> Ready<Result<Response<String>, Infallible>> {
    let values = request.headers().get_all(HEADER).iter();
    ready(Ok(Response::new(values.map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(" and "))))
}

/// Why a deadline ended a call or a body.
fn ended<T>(result: Result<T, Error>) -> Ended {
    match result {
        Err(Error::Ended(ended)) => ended,
        Err(Error::Failed(error)) => panic!("it failed: {error}"),
        Ok(_) => panic!("it was not ended"),
    }
}
