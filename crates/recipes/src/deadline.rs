//! A deadline that travels: an axum server, whose handlers call others by reqwest.

use axum::Router;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use reqwest::{Body, Client};
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Header, ServerLayer};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

/// The header in which the milliseconds that are left travel.
pub fn header() -> Header {
    Header::Millis("x-time-left".parse().expect("a name"))
}

/// Ends a handler, and the body that it sends, when its caller's time is up or the caller goes.
pub fn in_time<S: Clone + Send + Sync + 'static>(wheel: &TimingWheel, app: Router<S>) -> Router<S> {
    app.layer(ServerLayer::new(wheel, header()))
}

/// Gets a page, its body included, in the time that the current deadline leaves, and tells the server how long that is.
///
/// # Errors
/// If the request fails, or the deadline ends first.
pub async fn get(client: &Client, url: &str) -> Result<String, BoxError> {
    let send = service_fn(|request: Request<Body>| {
        let client = client.clone();
        async move {
            let response = client.execute(request.try_into()?).await?.error_for_status()?;
            Ok::<_, reqwest::Error>(Response::<Body>::from(response))
        }
    });
    let client = ServiceBuilder::new().layer(ClientLayer::new(header())).service(send);
    let response = client.oneshot(Request::get(url).body(Body::default())?).await?;
    Ok(String::from_utf8(response.into_body().collect().await?.to_bytes().into())?)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::time::Duration;

    use axum::http::StatusCode;
    use axum::routing;
    use http_body_util::channel::Channel;
    use hyper::body::Bytes;
    use timingwheel_deadline::wire::Error;
    use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    struct TellsDrop(mpsc::UnboundedSender<&'static str>, &'static str);

    impl Drop for TellsDrop {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }

    async fn serve(app: Router) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, app).await });
        format!("http://{address}/")
    }

    fn client() -> Client {
        Client::builder().no_proxy().build().unwrap()
    }

    /// Two servers: B calls C, and C never answers.
    async fn chain(wheel: &TimingWheel) -> (String, mpsc::UnboundedReceiver<&'static str>) {
        let (dropped, receiver) = mpsc::unbounded_channel();
        let at_c = dropped.clone();
        let c = routing::get(async move || {
            // In a task of its own, which ends with the deadline too.
            let work = async move {
                let _tells = TellsDrop(at_c.clone(), "C");
                pending::<()>().await;
            };
            let _end = tokio::spawn(Deadline::run_current(work)).await;
        });
        let c = serve(in_time(wheel, Router::new().route("/", c))).await;
        let b = routing::get(async move || {
            let _tells = TellsDrop(dropped.clone(), "B");
            get(&client(), &c).await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)
        });
        (serve(in_time(wheel, Router::new().route("/", b))).await, receiver)
    }

    async fn assert_both_dropped(mut dropped: mpsc::UnboundedReceiver<&'static str>) {
        let mut both = [dropped.recv().await.unwrap(), dropped.recv().await.unwrap()];
        both.sort_unstable();
        assert_eq!(both, ["B", "C"]);
    }

    fn is_late(error: &BoxError) -> bool {
        match error.downcast_ref() {
            Some(Error::Ended(ended)) => *ended == Ended::Passed,
            Some(Error::Failed(error)) => {
                let status = error.downcast_ref().and_then(reqwest::Error::status);
                status == Some(StatusCode::GATEWAY_TIMEOUT)
            }
            None => false,
        }
    }

    #[tokio::test]
    async fn the_deadline_of_a_ends_the_work_of_c() {
        let wheel = TimingWheel::new();
        let (b, dropped) = chain(&wheel).await;
        let deadline = wheel.deadline_in(Duration::from_millis(300));
        let error = deadline.scope(get(&client(), &b)).await.expect_err("C does not answer");
        // C has less than B, and B less than A, so the callee mostly answers first.
        assert!(is_late(&error), "{error:?}");
        assert_both_dropped(dropped).await;
    }

    #[tokio::test]
    async fn the_deadline_ends_a_body_that_stalls() {
        let headers_only = routing::get(async || {
            let (sender, body) = Channel::<Bytes, Infallible>::new(1);
            tokio::spawn(async {
                let _open = sender;
                pending::<()>().await;
            });
            axum::body::Body::new(body)
        });
        let stalls = serve(Router::new().route("/", headers_only)).await;
        let deadline = TimingWheel::new().deadline_in(Duration::from_millis(100));
        let client = client();
        let page = timeout(Duration::from_secs(60), deadline.scope(get(&client, &stalls)));
        let error = page.await.expect("the deadline ends it").expect_err("the body does not end");
        assert!(is_late(&error), "{error:?}");
    }

    #[tokio::test]
    async fn nobody_works_for_a_client_that_has_gone() {
        let wheel = TimingWheel::new();
        let (b, dropped) = chain(&wheel).await;
        let deadline = wheel.deadline_in(Duration::from_secs(3600));
        let asks = tokio::spawn(deadline.scope(async move { get(&client(), &b).await }));
        // Until C has its deadline armed, and A and B theirs.
        while wheel.pending() < 3 {
            tokio::task::yield_now().await;
        }
        asks.abort();
        assert_both_dropped(dropped).await;
    }
}
