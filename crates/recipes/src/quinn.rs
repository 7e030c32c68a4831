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
            && let Ok(()) = ready!(sleep.poll_wait(cx))
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
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use quinn::rustls::RootCertStore;
    use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
    use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ServerConfig};
    use quinn::{RecvStream, SendStream};

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

    /// After as long without a packet, both sides close a connection: quinn's default.
    const IDLE: Duration = Duration::from_secs(30);

    /// An endpoint whose timers are this wheel's, and who may connect to it.
    fn endpoint(wheel: &TimingWheel) -> (Endpoint, SocketAddr, ClientConfig) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("a root");
        let client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a client");
        let key = PrivatePkcs8KeyDer::from(key).into();
        let server = ServerConfig::with_single_cert(vec![certificate], key).expect("a server");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = socket.local_addr().expect("bound");
        let runtime = Arc::new(OnWheel(wheel.clone()));
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(server), socket, runtime);
        (endpoint.expect("an endpoint"), address, client)
    }

    /// A server that sends back each byte of each stream. Its tasks hold streams, whose drop takes a connection's lock.
    fn echo(wheel: &TimingWheel) -> (SocketAddr, ClientConfig) {
        let (server, address, client) = endpoint(wheel);
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(async move {
                    let connection = incoming.await.expect("a handshake");
                    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                        tokio::spawn(async move {
                            let mut byte = [0];
                            while recv.read_exact(&mut byte).await.is_ok() {
                                send.write_all(&byte).await.expect("it is sent");
                            }
                        });
                    }
                });
            }
        });
        (address, client)
    }

    async fn connect(client: &Endpoint, server: &(SocketAddr, ClientConfig)) -> Connection {
        let (address, config) = server.clone();
        client.connect_with(config, address, "localhost").expect("it can").await.expect("a connection")
    }

    async fn ask((send, recv): &mut (SendStream, RecvStream)) {
        let mut answer = [0];
        send.write_all(b"?").await.expect("it is sent");
        let answered = tokio::time::timeout(IDLE, recv.read_exact(&mut answer)).await;
        answered.expect("in time").expect("an answer");
    }

    /// Waits until both sides close the connection, and asserts that they do so in time.
    async fn assert_idles(connection: Connection) {
        let start = tokio::time::Instant::now();
        assert_eq!(connection.closed().await, ConnectionError::TimedOut);
        let waited = start.elapsed();
        assert!(waited > IDLE * 9 / 10 && waited < IDLE * 2, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn timers_of_a_servers_and_a_clients_connections_run_on_the_wheel() {
        let [ours, theirs] = [TimingWheel::new(), TimingWheel::new()];
        let (server, (client, ..)) = (echo(&theirs), endpoint(&ours));
        let connection = connect(&client, &server).await;
        let mut stream = connection.open_bi().await.expect("a stream");
        ask(&mut stream).await;
        for wheel in [&ours, &theirs] {
            assert_eq!(wheel.pending(), 1, "each has one connection");
        }
        assert_idles(connection).await;
        tokio::time::sleep(IDLE).await;
        for wheel in [&ours, &theirs] {
            let stats = wheel.stats();
            assert!(stats.fired > 0 && stats.pending == 0, "{stats:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_outlive_their_wheel_and_still_end_when_idle() {
        let wheel = TimingWheel::new();
        let (server, (client, ..)) = (echo(&wheel), endpoint(&wheel));
        let before = connect(&client, &server).await;
        let mut stream = before.open_bi().await.expect("a stream");
        ask(&mut stream).await;
        assert_eq!(wheel.shutdown(), 2);
        ask(&mut stream).await;
        let after = connect(&client, &server).await;
        ask(&mut after.open_bi().await.expect("a stream")).await;
        tokio::join!(assert_idles(before), assert_idles(after));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_work_on_a_wheel_that_is_full() {
        let wheel = TimingWheel::builder().max_pending(1).build().expect("a wheel");
        let (server, (client, ..)) = (echo(&wheel), endpoint(&wheel));
        let [first, second] = [connect(&client, &server).await, connect(&client, &server).await];
        let mut streams =
            [first.open_bi().await.expect("a stream"), second.open_bi().await.expect("a stream")];
        for stream in &mut streams {
            ask(stream).await;
        }
        assert!(wheel.stats().refused > 0 && wheel.pending() <= 1, "{:?}", wheel.stats());
        tokio::join!(assert_idles(first), assert_idles(second));
    }
}
