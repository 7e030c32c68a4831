//! How do I give a request two seconds, and each of its calls half a second?
//!
//! `cargo run -p timingwheel-deadline --example limit`

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::time::sleep;

async fn call(name: &str, takes: Duration) -> String {
    let left = Deadline::current().and_then(|it| it.remaining()).expect("a limit");
    println!("{name} may take {left:.0?}");
    sleep(takes).await;
    format!("the answer of {name}")
}

#[tokio::main]
async fn main() {
    let ms = Duration::from_millis;
    let request = TimingWheel::new().deadline_in(ms(2000));
    for (name, takes) in [("a fast call", ms(10)), ("a slow call", ms(10_000))] {
        match request.run_within(ms(500), call(name, takes)).await {
            Ok(answer) => println!("{answer}"),
            Err(Ended::Limit) => println!("{name} took too long; the request goes on"),
            Err(ended) => println!("the request is over: {ended}"),
        }
    }
}
