//! quinn: a runtime whose timers are the wheel's. Give it to `quinn::Endpoint::new`.

use std::future::Future;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{io, time::Instant};

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use timingwheel::{Sleep, TimingWheel};

/// tokio's runtime, but for its timers.
#[derive(Debug)]
pub struct OnWheel(pub TimingWheel);

impl Runtime for OnWheel {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer { sleep: self.0.sleep_until(at.into()), by_tokio: None })
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
struct Timer {
    sleep: Sleep,
    /// Where the wheel has ended or is full. quinn polls under a lock that its streams take too, so this must not panic.
    by_tokio: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.by_tokio = None;
        Pin::new(&mut self.sleep).reset(at.into());
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { sleep, by_tokio } = &mut *self;
        if by_tokio.is_none()
            && let Ok(()) = ready!(sleep.poll_try_wait(cx))
        {
            return Poll::Ready(());
        }
        let deadline = sleep.deadline();
        let by_tokio = by_tokio.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        Future::poll(by_tokio.as_mut(), cx)
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

    #[tokio::test(start_paused = true)]
    async fn where_the_wheel_is_full_or_has_ended_a_timer_of_quinns_is_ready_in_time_and_asks_again_when_moved()
     {
        let second = Duration::from_secs(1);
        let runtime = OnWheel(TimingWheel::builder().max_pending(1).build().unwrap());
        let (start, place) = (runtime.now(), runtime.0.try_sleep(9 * second).unwrap());
        let mut timer = runtime.new_timer(start + second);
        poll_fn(|cx| timer.as_mut().poll(cx)).await;
        assert_eq!(runtime.now() - start, second, "it is full");
        drop(place);
        timer.as_mut().reset(start + 2 * second);
        poll_fn(|cx| timer.as_mut().poll(cx)).await;
        assert_eq!((runtime.now() - start, runtime.0.stats().fired), (2 * second, 1));
        timer.as_mut().reset(start + 3 * second);
        let poll = |cx: &mut Context<'_>| Poll::Ready(timer.as_mut().poll(cx));
        assert!(poll_fn(poll).await.is_pending());
        assert_eq!(runtime.0.shutdown(), 1);
        poll_fn(|cx| timer.as_mut().poll(cx)).await;
        assert_eq!(runtime.now() - start, 3 * second, "it has ended");
    }
}
