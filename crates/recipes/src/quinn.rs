//! quinn: a runtime whose timers are the wheel's. Give it to `quinn::Endpoint::new`.

use std::future::Future;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{io, time::Instant};

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use timingwheel::{Sleep, TimingWheel};

/// tokio's runtime, but for its timers.
#[derive(Debug)]
pub struct OnWheel(pub TimingWheel);

impl Runtime for OnWheel {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer(self.0.sleep_until(at.into())))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(task);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

#[derive(Debug)]
struct Timer(Sleep);

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        Pin::new(&mut self.0).reset(at.into());
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_quinns_is_armed_moved_and_fired_by_the_wheel() {
        let runtime = OnWheel(TimingWheel::new());
        let start = runtime.now();
        let mut timer = runtime.new_timer(start + Duration::from_secs(1));
        let poll = |cx: &mut Context<'_>| Poll::Ready(timer.as_mut().poll(cx));
        assert!(poll_fn(poll).await.is_pending());
        assert_eq!(runtime.0.pending(), 1);
        timer.as_mut().reset(start + Duration::from_secs(2));
        poll_fn(|cx| timer.as_mut().poll(cx)).await;
        assert_eq!(runtime.now() - start, Duration::from_secs(2));
        assert_eq!(runtime.0.stats().fired, 1);
    }
}
