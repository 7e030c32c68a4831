//! Deadlines over the wire: layers for tower that read and write the time that is left.
//!
//! A [`ServerLayer`] reads the time that the caller has left and makes it the [current](crate::Deadline::current) deadline
//! of the handler. A [`ClientLayer`] sends what the current deadline has left. So if A calls B and B calls C, then A's
//! deadline ends C's work. Both put an [`InTime`] round the body of each response, so a stream has the deadline too, and
//! ends with it.
//!
//! Each hop sends a duration, not an instant, so no clocks have to agree. The time on the network counts for the caller
//! only: give a [margin](ClientLayer::margin) if the callee should end first.
//!
//! # Which order of layers means what
//! "`A` around `B`" is `ServiceBuilder::new().layer(a).layer(b)`.
//!
//! | order | meaning |
//! |---|---|
//! | `Retry` or a hedge around `ClientLayer` | each try sends what is left when it begins: take this one |
//! | `ClientLayer` around `Retry` | each try sends what the first one had |
//! | `ClientLayer` around `Buffer` | bounds the wait in the buffer, and sends the time from before it |
//! | `Buffer` around `ClientLayer` | sends the time after the wait. Put the deadline into the request's extensions before the buffer, whose task has no current one |
//! | `Timeout` around `ClientLayer` | ends the call, and its server does not know. [`run_within`](crate::Deadline::run_within) tells it |
//! | `ServerLayer` around `ConcurrencyLimit` | the time in the queue counts: take this one |
//! | `ServerLayer` around `LoadShed` around a limit | sheds what has to wait. `LoadShed` around `ServerLayer` sheds nothing, because that is always ready |
//!
//! # gRPC with tonic
//! `Server::builder().layer(ServerLayer::new(&wheel, Header::Grpc))` is a server. A generated client takes
//! `ServiceBuilder::new().layer(ClientLayer::new(Header::Grpc)).service(channel)`. Each call then ends by one status, also
//! where tonic's own timer for the header is first. Recipes of the repository also bound what a client streams.
//!
//! # What became of requests
//! [`ServerLayer::on_end`] takes one callback. Recipes of the repository show it with `metrics` and with a span of `tracing`.

mod body;
mod client;
mod header;
mod server;
mod status;
mod told;

use std::pin::Pin;
use std::{error, fmt};

pub use self::body::InTime;
pub use self::client::{Client, ClientLayer};
pub use self::header::{Header, format_grpc_timeout, parse_grpc_timeout};
pub use self::server::{Server, ServerLayer};
pub use self::told::{Outcome, Report};
use crate::ended::Ended;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type BoxError = Box<dyn error::Error + Send + Sync>;

/// Why a call or a body under a deadline failed.
///
/// It is a type of its own, because a service whose error is a trait object cannot be called by a boxed future that is `Send`:
/// the compiler then says that an implementation of `From` is not general enough.
#[derive(Debug)]
pub enum Error {
    /// Its deadline ended it.
    Ended(Ended),
    /// What is under the deadline failed.
    Failed(Box<dyn error::Error + Send + Sync>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(ended) => ended.fmt(f),
            Self::Failed(_) => f.write_str("a call or a body under a deadline failed"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        if let Self::Failed(error) = self { Some(&**error) } else { None }
    }
}

fn failed(error: impl Into<BoxError>) -> Error {
    Error::Failed(error.into())
}
