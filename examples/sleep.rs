//! How late does a timer fire: on a wheel with a tick of 1 ms, on one with 100 µs, and on `tokio::time`?
//!
//! `cargo run --release -p timingwheel-examples --example sleep`

use std::time::{Duration, Instant};

use timingwheel::TimingWheel;
use tokio::task::JoinSet;

const SLEEPS: usize = 5_000;
const LONGEST: Duration = Duration::from_millis(500);

/// The lateness of many sleeps at once, sorted: that of the timer, and the time to run the task. Without a wheel they are tokio's.
async fn measure(wheel: Option<&TimingWheel>) -> Vec<Duration> {
    let mut tasks = JoinSet::new();
    for _ in 0..SLEEPS {
        let delay = LONGEST.mul_f64(fastrand::f64());
        let wheel = wheel.cloned();
        tasks.spawn(async move {
            // Before the sleep is made, which takes its time from then on.
            let deadline = Instant::now() + delay;
            match wheel {
                Some(wheel) => wheel.sleep(delay).await,
                None => tokio::time::sleep(delay).await,
            }
            Instant::now().checked_duration_since(deadline).expect("no timer is early")
        });
    }
    let mut all = tasks.join_all().await;
    all.sort_unstable();
    all
}

#[tokio::main]
async fn main() -> Result<(), timingwheel::BuildError> {
    let coarse = TimingWheel::new();
    let fine = TimingWheel::builder().tick(Duration::from_micros(100)).build()?;
    println!("{SLEEPS} sleeps of up to {LONGEST:?} on each kind of timer\n");
    println!("| timers         | late: half within | 99 % within |  all within | turns |");
    println!("|----------------|------------------:|------------:|------------:|------:|");
    for (name, wheel) in
        [("a tick of 1 ms", Some(&coarse)), ("of 100 µs", Some(&fine)), ("tokio::time", None)]
    {
        let late = measure(wheel).await;
        let [half, most, all] = [SLEEPS / 2, SLEEPS * 99 / 100, SLEEPS - 1]
            .map(|rank| format!("{:.3} ms", late[rank].as_secs_f64() * 1e3));
        let turns = wheel.map_or("-".into(), |wheel| wheel.stats().turns.to_string());
        println!("| {name:<14} | {half:>17} | {most:>11} | {all:>11} | {turns:>5} |");
    }
    println!(
        "\nWhat it means: a timer of a wheel is late by up to a tick, or two where many\n\
         fire, and by the time that the machine takes to run its task. A shorter tick is\n\
         more precise, but each turn of the wheel costs CPU time."
    );
    Ok(())
}
