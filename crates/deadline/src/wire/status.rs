//! [`Status`]: how an answer says that a request was ended.

use http::header::HeaderValue;
use http::{HeaderMap, StatusCode};

use crate::ended::Ended;

/// A status of HTTP, the same of gRPC, and what it says in printable ASCII.
pub(super) struct Status {
    pub(super) http: StatusCode,
    grpc: u16,
    message: String,
}

impl From<Ended> for Status {
    fn from(ended: Ended) -> Self {
        let (http, grpc) = match ended {
            Ended::Passed | Ended::Limit => (StatusCode::GATEWAY_TIMEOUT, 4),
            Ended::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, 1),
        };
        Self { http, grpc, message: ended.to_string() }
    }
}

impl Status {
    /// Of a request with a header that cannot be read: as grpc-go's servers answer.
    pub(super) const fn unreadable(message: String) -> Self {
        Self { http: StatusCode::BAD_REQUEST, grpc: 13, message }
    }

    /// Writes what stands in a gRPC answer's head if that is all, and otherwise in its trailers.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let message = self.message.replace('%', "%25");
        headers.insert("grpc-status", self.grpc.into());
        headers.insert("grpc-message", HeaderValue::try_from(message).expect("printable ASCII"));
    }
}
