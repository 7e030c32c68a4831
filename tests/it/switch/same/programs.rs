//! Small programs as users write them.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::time::{
    Duration, Instant, MissedTickBehavior, error::Elapsed, interval, interval_at, sleep, sleep_until,
    timeout, timeout_at,
};
use crate::ms;
use crate::switch::trace::Trace;

/// Echoes, sends a heartbeat when it is silent for long, and hangs up when the other side is.
async fn serve(mut stream: DuplexStream, trace: Trace) {
    let mut silence = pin!(sleep(ms(1_000)));
    let mut heartbeat = interval_at(Instant::now() + ms(300), ms(300));
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut buffer = [0; 16];
    loop {
        tokio::select! {
            biased;
            read = stream.read(&mut buffer) => match read {
                Ok(read @ 1..) => {
                    trace.note(format_args!("server: {read} bytes"));
                    silence.as_mut().reset(Instant::now() + ms(1_000));
                    heartbeat.reset();
                    stream.write_all(&buffer[..read]).await.expect("the client reads");
                }
                _ => break trace.note("server: closed"),
            },
            () = &mut silence => break trace.note("server: the client is dead"),
            _ = heartbeat.tick() => {
                let sent = timeout(ms(50), stream.write_all(b"!")).await;
                trace.note(format_args!("server: heartbeat {}", matches!(sent, Ok(Ok(())))));
            }
        }
    }
}

pub(crate) async fn a_server_echoes_beats_and_notices_a_dead_client(trace: Trace) {
    let (mut client, server) = duplex(4);
    let server = tokio::spawn(serve(server, trace.clone()));
    for gap in [10, 250, 700, 900, 1_200] {
        sleep(ms(gap)).await;
        if client.write_all(b"abc").await.is_err() {
            trace.note("client: the server has hung up");
        }
        let mut buffer = [0; 16];
        while let Ok(Ok(read @ 1..)) = timeout(ms(20), client.read(&mut buffer)).await {
            trace.note(format_args!("client: {:?}", &buffer[..read]));
        }
    }
    server.await.expect("no panic");
}

async fn flaky(trace: &Trace, attempt: u32) -> Result<u32, &'static str> {
    sleep(ms(if attempt == 1 { 500 } else { 20 })).await;
    trace.note(format_args!("attempt {attempt} was answered"));
    if attempt < 4 { Err("not yet") } else { Ok(attempt) }
}

pub(crate) async fn a_call_is_tried_again_after_longer_and_longer_pauses_until_a_deadline(trace: Trace) {
    for limit in [300, 400, 5_000] {
        let deadline = Instant::now() + ms(limit);
        let call = async {
            let mut pause = ms(10);
            for attempt in 0.. {
                match timeout(ms(100), flaky(&trace, attempt)).await {
                    Ok(Ok(answer)) => return answer,
                    Ok(Err(error)) => trace.note(error),
                    Err(elapsed) => trace.note(elapsed),
                }
                sleep(pause).await;
                pause *= 2;
            }
            unreachable!("it goes on until it is given up")
        };
        let result: Result<u32, Elapsed> = timeout_at(deadline, call).await;
        trace.note(format_args!("{:?}", result.ok()));
    }
}

pub(crate) async fn a_cache_forgets_entries_that_are_not_used(trace: Trace) {
    let cache = Arc::new(Mutex::new(HashMap::new()));
    let mut sweep = interval(ms(50));
    sweep.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (swept, note) = (cache.clone(), trace.clone());
    let sweeper = tokio::spawn(async move {
        loop {
            let now = sweep.tick().await;
            let mut entries = swept.lock().expect("not poisoned");
            let mut old: Vec<u64> =
                entries.extract_if(|_, used| *used + ms(120) <= now).map(|(k, _)| k).collect();
            old.sort_unstable();
            note.note(format_args!("forgotten {old:?}"));
            if entries.is_empty() {
                break;
            }
        }
    });
    for key in [1, 2, 3, 1, 2, 1, 1, 4] {
        cache.lock().expect("not poisoned").insert(key, Instant::now());
        sleep(ms(40)).await;
    }
    sweeper.await.expect("no panic");
}

pub(crate) async fn a_limiter_lets_so_many_start_in_a_second(trace: Trace) {
    let places = Arc::new(Semaphore::new(3));
    let refill = places.clone();
    let refill = tokio::spawn(async move {
        let mut every = interval_at(Instant::now() + ms(1_000), ms(1_000));
        loop {
            every.tick().await;
            refill.add_permits(3 - refill.available_permits().min(3));
        }
    });
    let mut calls = JoinSet::new();
    for number in 0..12 {
        let (places, trace) = (places.clone(), trace.clone());
        calls.spawn(async move {
            sleep(ms(number * 100)).await;
            match timeout(ms(2_500), places.acquire()).await {
                Ok(place) => {
                    place.expect("open").forget();
                    trace.note(format_args!("{number} starts"));
                    sleep(ms(150)).await;
                    trace.note(format_args!("{number} ends"));
                }
                Err(elapsed) => trace.note(format_args!("{number}: {elapsed}")),
            }
        });
    }
    calls.join_all().await;
    refill.abort();
}

pub(crate) async fn changes_are_put_together_until_there_is_a_pause(trace: Trace) {
    let (changes, mut seen) = watch::channel(0);
    let writer = tokio::spawn(async move {
        for (value, gap) in (1..).zip([5, 5, 30, 200, 49, 50, 51, 10]) {
            sleep(ms(gap)).await;
            changes.send(value).expect("a reader is there");
        }
        sleep(ms(500)).await;
    });
    while seen.changed().await.is_ok() {
        let mut pause = pin!(sleep(ms(50)));
        let at_the_latest = Instant::now() + ms(120);
        loop {
            tokio::select! {
                biased;
                changed = seen.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    pause.as_mut().reset(Instant::now() + ms(50));
                }
                () = &mut pause => break trace.note("a pause"),
                () = sleep_until(at_the_latest) => break trace.note("long enough"),
            }
        }
        trace.note(format_args!("saved {}", *seen.borrow_and_update()));
    }
    writer.await.expect("no panic");
}

async fn work(trace: Trace, mut stop: watch::Receiver<bool>, number: u64) {
    // Each has instants of its own, as the order at the same instant is nobody's promise.
    sleep(ms(number)).await;
    let mut round = interval(ms(30 + number * 10));
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            due = round.tick() => {
                trace.note_instant(&format!("worker {number}"), due);
                sleep(ms(number * 40)).await;
            }
        }
    }
    // Its last work takes longer than some of them may.
    sleep(ms(number * 60)).await;
    trace.note(format_args!("worker {number} leaves"));
}

pub(crate) async fn workers_that_do_not_leave_in_time_are_stopped(trace: Trace) {
    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    for number in 0..5 {
        workers.spawn(work(trace.clone(), stopped.clone(), number));
    }
    sleep(ms(339)).await;
    stop.send(true).expect("workers are there");
    let all = async { while workers.join_next().await.is_some() {} };
    trace.note(timeout(ms(150), all).await.is_ok());
    trace.note(format_args!("{} are stopped", workers.len()));
    workers.shutdown().await;
}

pub(crate) async fn messages_leave_in_batches_that_are_full_or_old(trace: Trace) {
    let (sender, mut messages) = mpsc::unbounded_channel();
    let writer = tokio::spawn(async move {
        for (number, gap) in (0..).zip([0, 1, 2, 3, 100, 10, 10, 70, 5, 5, 5, 5, 5, 5]) {
            sleep(ms(gap)).await;
            sender.send(number).expect("a reader is there");
        }
    });
    let mut batch: Vec<u64> = Vec::new();
    let mut old = Box::pin(sleep(Duration::ZERO));
    loop {
        tokio::select! {
            biased;
            message = messages.recv() => match message {
                Some(message) => {
                    if batch.is_empty() {
                        old.as_mut().reset(Instant::now() + ms(40));
                    }
                    batch.push(message);
                }
                None => break,
            },
            () = old.as_mut(), if !batch.is_empty() => trace.note(format_args!("old: {:?}", batch.split_off(0))),
        }
        if batch.len() == 4 {
            trace.note(format_args!("full: {:?}", batch.split_off(0)));
        }
    }
    trace.note(format_args!("the rest: {batch:?}"));
    writer.await.expect("no panic");
}
