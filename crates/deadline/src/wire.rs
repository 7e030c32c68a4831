//! Deadlines over the wire: layers for tower that read and write the time that is left.
//!
//! A [`ServerLayer`] reads the time that the caller has left and makes it the [current](Deadline::current) deadline of the
//! handler. A [`ClientLayer`] sends what the current deadline has left. So if A calls B and B calls C, then A's deadline
//! ends C's work. Where the caller hangs up before the answer is there, hyper drops the handler, which
//! [cancels](Deadline::cancel) its deadline, and so the calls that it made. After that it only drops the body.
//!
//! Each hop sends a duration, not an instant, so no clocks have to agree. The time on the network counts for the caller
//! only: give a [margin](ClientLayer::margin) if the callee should end first.

use std::error::Error;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use crate::sync::TimingWheel;
use crate::tree::instant_in;
use crate::{Deadline, DeadlineCounters, Ended};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type BoxError = Box<dyn Error + Send + Sync>;

/// The header in which the time that is left travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// `grpc-timeout`, in [gRPC's format](format_grpc_timeout).
    Grpc,
    /// A header of your own, in whole milliseconds.
    Millis(HeaderName),
}

impl Header {
    fn name(&self) -> HeaderName {
        match self {
            Self::Grpc => HeaderName::from_static("grpc-timeout"),
            Self::Millis(name) => name.clone(),
        }
    }

    /// The time in the headers, if there is one; as the error, what is wrong with it.
    fn read(&self, headers: &HeaderMap) -> Result<Option<Duration>, String> {
        let name = self.name();
        let Some(value) = headers.get(&name) else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        let (time, allowed) = match self {
            Self::Grpc => (parse_grpc_timeout(text), "one to eight digits and a unit of H, M, S, m, u, n"),
            Self::Millis(_) => (number(text).map(Duration::from_millis), "a whole number of milliseconds"),
        };
        time.map(Some).ok_or_else(|| format!("{name} takes {allowed}, got {value:?}"))
    }

    /// Rounds down, so that the callee ends first.
    fn write(&self, left: Duration) -> HeaderValue {
        let text = match self {
            Self::Grpc => format_grpc_timeout(left),
            Self::Millis(_) => left.as_millis().min(u64::MAX.into()).to_string(),
        };
        HeaderValue::from_str(&text).expect("digits and a letter")
    }
}

/// Digits alone: `parse` also takes a sign.
fn number<N: FromStr>(text: &str) -> Option<N> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The units of gRPC, the finest first.
const UNITS: [(char, Duration); 6] = [
    ('n', Duration::from_nanos(1)),
    ('u', Duration::from_micros(1)),
    ('m', Duration::from_millis(1)),
    ('S', Duration::from_secs(1)),
    ('M', Duration::from_secs(60)),
    ('H', Duration::from_secs(3600)),
];

/// Reads the value of a `grpc-timeout`: one to eight digits and a unit. `None` if it is anything else.
///
/// ```
/// # use std::time::Duration;
/// # use timingwheel_deadline::wire::parse_grpc_timeout;
/// assert_eq!(parse_grpc_timeout("250m"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_grpc_timeout("2H"), Some(Duration::from_secs(7200)));
/// assert_eq!(parse_grpc_timeout("123456789n"), None, "nine digits");
/// assert_eq!(parse_grpc_timeout("1.5S"), None);
/// ```
#[must_use]
pub fn parse_grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit)))?;
    // Eight digits of hours are fewer than 2^39 seconds.
    number(digits).filter(|_| digits.len() <= 8).map(|count: u32| unit * count)
}

/// The value of a `grpc-timeout` for `left`, in the finest unit that takes eight digits at most. It is rounded down, and
/// capped at 99,999,999 hours.
///
/// ```
/// # use std::time::Duration;
/// # use timingwheel_deadline::wire::format_grpc_timeout;
/// assert_eq!(format_grpc_timeout(Duration::from_millis(20)), "20000000n");
/// assert_eq!(format_grpc_timeout(Duration::from_nanos(1_999_999_999)), "1999999u");
/// ```
#[must_use]
pub fn format_grpc_timeout(left: Duration) -> String {
    const MOST: u128 = 99_999_999;
    let mut counts = UNITS.iter().map(|(name, unit)| (left.as_nanos() / unit.as_nanos(), name));
    let (count, name) = counts.find(|(count, _)| *count <= MOST).unwrap_or((MOST, &'H'));
    format!("{count}{name}")
}

/// Gives each request the deadline that its caller sent.
///
/// The deadline is [current](Deadline::current) in the handler, and stands in the request's extensions. When it ends, the
/// handler is dropped and the caller is answered. When the caller hangs up first, the deadline is cancelled. A request
/// that comes too late is answered without a call of the handler. Within a current deadline, such as that of another layer
/// round this one, the request's ends with it at the latest. If it is [counted](Self::counted), it ends by the current one's
/// time, and not when that is cancelled or moved later on.
///
/// | answer | [`Header::Grpc`] | [`Header::Millis`] |
/// |---|---|---|
/// | the deadline passed | `grpc-status` 4, deadline exceeded | 504, gateway timeout |
/// | the deadline was cancelled | `grpc-status` 1, cancelled | 503, service unavailable |
/// | the header cannot be read | `grpc-status` 13, internal, as grpc-go's servers answer | 400, bad request |
///
/// The deadline bounds the time until the handler's answer is there. A body that streams on is the handler's to bound:
/// it may keep a clone of the deadline.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use http::{Request, Response};
/// use timingwheel::TimingWheel;
/// use timingwheel_deadline::wire::{Header, ServerLayer};
/// use tower::{ServiceBuilder, service_fn};
///
/// let handler = service_fn(|_: Request<String>| async { Ok::<_, std::io::Error>(Response::new(String::new())) });
/// let layer = ServerLayer::new(&TimingWheel::new(), Header::Grpc).at_most(Duration::from_secs(30));
/// let service = ServiceBuilder::new().layer(layer).service(handler);
/// # let _ = tower::ServiceExt::oneshot(service, Request::new(String::new())).await;
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put round a service"]
pub struct ServerLayer {
    wheel: TimingWheel,
    header: Header,
    most: Duration,
    counters: Option<DeadlineCounters>,
}

impl ServerLayer {
    /// Deadlines on `wheel`, from `header`. A request without the header has no deadline unless [`at_most`](Self::at_most)
    /// gives one.
    pub fn new(wheel: &TimingWheel, header: Header) -> Self {
        Self { wheel: wheel.clone(), header, most: Duration::MAX, counters: None }
    }

    /// Gives no request more than `most`, whatever its caller sent.
    pub const fn at_most(mut self, most: Duration) -> Self {
        self.most = most;
        self
    }

    /// Counts the requests that have a deadline: see [`DeadlineStats`](crate::DeadlineStats).
    pub fn counted(mut self, counters: &DeadlineCounters) -> Self {
        self.counters = Some(counters.clone());
        self
    }

    /// The deadline of a request that comes in now, or how its header is wrong.
    fn deadline(&self, headers: &HeaderMap) -> Result<Option<Deadline>, String> {
        let left = match self.header.read(headers)? {
            None if self.most == Duration::MAX => return Ok(None),
            left => left.unwrap_or(Duration::MAX).min(self.most),
        };
        let current = Deadline::current();
        let left = current.as_ref().map_or(left, |current| left.min(current.remaining()));
        Ok(Some(match (current, &self.counters) {
            (Some(current), None) => current.child_in(left),
            // A child of the current one would not be counted. If that is cancelled, this is dropped.
            (_, counters) => Deadline::root(&self.wheel, instant_in(&self.wheel, left), counters.as_ref()),
        }))
    }

    /// The answer to a request that has no other.
    fn refusal<B: Default>(&self, http: StatusCode, grpc: u16, message: &str) -> Response<B> {
        let mut response = Response::new(B::default());
        match self.header {
            Header::Grpc => {
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                headers.insert("grpc-status", HeaderValue::from(grpc));
                // Printable ASCII, of which gRPC encodes the `%` alone.
                if let Ok(message) = HeaderValue::from_str(&message.replace('%', "%25")) {
                    headers.insert("grpc-message", message);
                }
            }
            Header::Millis(_) => *response.status_mut() = http,
        }
        response
    }

    fn ended<B: Default>(&self, ended: Ended) -> Response<B> {
        let (http, grpc) = match ended {
            Ended::Passed => (StatusCode::GATEWAY_TIMEOUT, 4),
            Ended::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, 1),
        };
        self.refusal(http, grpc, &ended.to_string())
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = Server<S>;

    fn layer(&self, inner: S) -> Server<S> {
        Server { inner, layer: self.clone() }
    }
}

/// The service of a [`ServerLayer`].
#[derive(Clone, Debug)]
pub struct Server<S> {
    inner: S,
    layer: ServerLayer,
}

impl<S, B, R> Service<Request<B>> for Server<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Default + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let layer = self.layer.clone();
        // The clone may not be ready; the one that is takes this request.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        // Here, not at the first poll: the time runs from now on.
        let deadline = layer.deadline(request.headers());
        Box::pin(async move {
            let deadline = match deadline {
                Ok(None) => return inner.call(request).await,
                Ok(Some(deadline)) => deadline,
                Err(invalid) => return Ok(layer.refusal(StatusCode::BAD_REQUEST, 13, &invalid)),
            };
            if let Some(end) = deadline.end() {
                return Ok(layer.ended(end));
            }
            request.extensions_mut().insert(deadline.clone());
            let guard = CancelOnDrop(&deadline);
            let answer = deadline.run(deadline.scope(async move { inner.call(request).await })).await;
            mem::forget(guard);
            answer.unwrap_or_else(|ended| Ok(layer.ended(ended)))
        })
    }
}

/// Cancels a deadline whose request nobody waits for.
struct CancelOnDrop<'a>(&'a Deadline);

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Sends the time that the [current](Deadline::current) deadline has left, and ends the call with it. The time until the
/// service is ready and the response's body are not bounded: let the deadline [run](Deadline::run) the whole for that.
///
/// Without a current deadline a request goes as it is. If the header is there already and says less, it stays.
///
/// # Errors
/// The service's own errors, boxed. [`Ended`] if the deadline ends before the answer is there. Nothing is sent if the
/// deadline has ended before the call, or has no more time left than the [margin](Self::margin).
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put round a service"]
pub struct ClientLayer {
    header: Header,
    margin: Duration,
}

impl ClientLayer {
    /// Sends `header`.
    pub const fn new(header: Header) -> Self {
        Self { header, margin: Duration::ZERO }
    }

    /// Sends `margin` less than is left: the time that the answer takes on its way.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }
}

impl<S> Layer<S> for ClientLayer {
    type Service = Client<S>;

    fn layer(&self, inner: S) -> Client<S> {
        Client { inner, layer: self.clone() }
    }
}

/// The service of a [`ClientLayer`].
#[derive(Clone, Debug)]
pub struct Client<S> {
    inner: S,
    layer: ClientLayer,
}

impl<S, B> Service<Request<B>> for Client<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(deadline) = Deadline::current() else {
            let call = self.inner.call(request);
            return Box::pin(async { call.await.map_err(Into::into) });
        };
        let ClientLayer { header, margin } = &self.layer;
        let left = deadline.remaining().saturating_sub(*margin);
        if let Some(end) = deadline.end().or(left.is_zero().then_some(Ended::Passed)) {
            return Box::pin(async move { Err(end.into()) });
        }
        let is_less = matches!(header.read(request.headers()), Ok(Some(sent)) if sent <= left);
        if !is_less {
            request.headers_mut().insert(header.name(), header.write(left));
        }
        let call = self.inner.call(request);
        Box::pin(async move { deadline.run(call).await?.map_err(Into::into) })
    }
}
