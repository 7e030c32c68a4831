//! Guards round other streams, inside them, and two with a copy between them.

use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufStream, copy_bidirectional, duplex,
};
use tokio::join;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_test::io::Builder;

use super::{ms, passed};

#[tokio::test(start_paused = true)]
async fn a_script_of_reads_and_writes_passes_through_as_far_as_it_keeps_to_the_limits() {
    let script = Builder::new()
        .wait(ms(9))
        .read(b"hello")
        .write(b"and ")
        .write(b"hello")
        .wait(ms(9))
        .read(b"bye")
        .wait(ms(11))
        .read(b"too late")
        .build();
    let wheel = TimingWheel::new();
    let mut stream = wheel.idle_guard(script).with_read_limit(ms(10)).with_write_limit(ms(10));
    let start = Instant::now();
    let mut buffer = [0; 8];
    assert_eq!(stream.read(&mut buffer).await.unwrap(), 5);
    stream.write_all(b"and hello").await.unwrap();
    assert_eq!(stream.read(&mut buffer).await.unwrap(), 3);
    passed(stream.read(&mut buffer).await);
    assert_eq!(start.elapsed(), ms(28));
    stream.read_exact(&mut buffer).await.unwrap();
    assert_eq!((&buffer, start.elapsed()), (b"too late", ms(29)));
}

#[tokio::test(start_paused = true)]
async fn lines_are_read_through_a_buffer_round_a_guard_and_by_a_guard_round_a_buffer() {
    let wheel = TimingWheel::new();
    for is_outside in [false, true] {
        let (mut peer, stream) = duplex(64);
        let send = async {
            for part in ["one\ntw", "o\n", "three"] {
                sleep(ms(9)).await;
                peer.write_all(part.as_bytes()).await.unwrap();
            }
        };
        let mut lines = Vec::new();
        let read = async {
            let error = if is_outside {
                let guard = wheel.idle_guard(BufReader::new(stream)).with_read_limit(ms(10));
                let mut guarded = guard.lines();
                loop {
                    match guarded.next_line().await {
                        Ok(line) => lines.push(line.unwrap()),
                        Err(error) => break error,
                    }
                }
            } else {
                let guard = wheel.idle_guard(stream).with_read_limit(ms(10));
                let mut guarded = BufReader::new(guard).lines();
                loop {
                    match guarded.next_line().await {
                        Ok(line) => lines.push(line.unwrap()),
                        Err(error) => break error,
                    }
                }
            };
            passed::<()>(Err(error));
        };
        let start = Instant::now();
        join!(send, read);
        assert_eq!((lines, start.elapsed()), (vec!["one".to_owned(), "two".to_owned()], ms(37)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_of_a_buffer_round_a_guard_has_the_write_limit() {
    let (_peer, stream) = duplex(4);
    let guard = TimingWheel::new().idle_guard(stream).with_write_limit(ms(10));
    let mut stream = BufStream::new(guard);
    stream.write_all(b"more than four").await.unwrap();
    let start = Instant::now();
    passed(stream.flush().await);
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_copy_between_two_guards_ends_when_one_side_is_silent_for_too_long() {
    const QUIET: Duration = ms(10);
    let wheel = TimingWheel::new();
    let (mut client, one) = duplex(16);
    let (mut server, other) = duplex(16);
    let mut one = wheel.idle_guard(one).with_read_limit(QUIET).with_write_limit(QUIET);
    let mut other = wheel.idle_guard(other).with_read_limit(3 * QUIET).with_write_limit(QUIET);
    let start = Instant::now();
    let copy = tokio::spawn(async move {
        passed(copy_bidirectional(&mut one, &mut other).await);
        start.elapsed()
    });
    let mut buffer = [0; 5];
    for _ in 0..5 {
        client.write_all(b"hello").await.unwrap();
        server.read_exact(&mut buffer).await.unwrap();
        server.write_all(b"world").await.unwrap();
        client.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"world");
        sleep(ms(9)).await;
    }
    assert_eq!(copy.await.unwrap(), ms(4 * 9 + 10));
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test]
async fn a_socket_is_read_and_written_through_a_guard() {
    let wheel = TimingWheel::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (peer, accepted) = join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let (mut peer, stream) = (peer.unwrap(), accepted.unwrap().0);
    let mut stream = wheel.idle_guard(stream).with_read_limit(ms(20)).with_write_limit(ms(20));
    stream.write_all(b"hello").await.unwrap();
    let mut buffer = [0; 5];
    peer.read_exact(&mut buffer).await.unwrap();
    peer.write_all(&buffer).await.unwrap();
    stream.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"hello");

    let start = Instant::now();
    passed(stream.read_u8().await);
    assert!(start.elapsed() >= ms(20));
    // More than the sockets' buffers hold, and the peer does not read.
    passed(stream.write_all(&vec![0; 64 << 20]).await);
}
