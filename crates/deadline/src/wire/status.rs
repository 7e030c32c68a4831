//! How an answer says that a request was ended.

use std::fmt::Write;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use super::body::InTime;
use super::header::Header;
use crate::ended::Ended;

/// A status of HTTP, and the same of gRPC.
#[derive(Clone, Copy)]
pub(super) struct Status(StatusCode, u16);

/// As grpc-go's servers answer.
pub(super) const UNREADABLE: Status = Status(StatusCode::BAD_REQUEST, 13);

impl From<Ended> for Status {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Passed | Ended::Limit => Self(StatusCode::GATEWAY_TIMEOUT, 4),
            Ended::Cancelled => Self(StatusCode::SERVICE_UNAVAILABLE, 1),
        }
    }
}

/// The trailers of a gRPC answer that has begun.
pub(super) fn trailers(ended: Ended) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    write(&mut trailers, ended.into(), &ended.to_string());
    trailers
}

/// The answer to a request that was ended, and has no other.
pub(super) fn ended<B>(header: &Header, ended: Ended) -> Response<InTime<B>> {
    answer(header, ended.into(), &ended.to_string())
}

/// The answer to a request that has no other.
pub(super) fn answer<B>(header: &Header, status: Status, message: &str) -> Response<InTime<B>> {
    let mut response = Response::new(InTime::response(None, header, None));
    match header {
        Header::Grpc => {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            write(response.headers_mut(), status, message);
        }
        Header::Millis(_) => *response.status_mut() = status.0,
    }
    response
}

fn write(headers: &mut HeaderMap, status: Status, message: &str) {
    let mut encoded = String::new();
    for byte in message.bytes() {
        match byte {
            b'%' | ..b' ' | b'\x7f'.. => write!(encoded, "%{byte:02X}").expect("a string takes all"),
            _ => encoded.push(byte.into()),
        }
    }
    headers.insert("grpc-status", status.1.into());
    headers.insert("grpc-message", HeaderValue::from_str(&encoded).expect("printable ASCII"));
}
