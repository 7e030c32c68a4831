//! How does a deadline travel between axum servers? A gives B 300 ms, and B calls C, which would work for an hour.
//!
//! `cargo run -p timingwheel-recipes --example axum`

use std::time::Duration;

use axum::http::StatusCode;
use axum::{Router, routing};
use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt};
use timingwheel_recipes::deadline::{get, in_time};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Serves on a free port, and returns the URL.
async fn serve(wheel: &TimingWheel, name: &'static str, app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    // Around all that the server does.
    tokio::spawn(axum::serve(listener, in_time(wheel, app)).into_future());
    println!("{name} listens on {address}");
    format!("http://{address}/")
}

fn say(name: &str) {
    let left = Deadline::current().and_then(|it| it.remaining());
    println!("{name} has {left:.0?} left");
}

struct Work;

impl Drop for Work {
    fn drop(&mut self) {
        println!("C stops working");
    }
}

#[tokio::main]
async fn main() {
    let (wheel, client) = (TimingWheel::new(), reqwest::Client::new());
    let works = async || {
        say("C");
        let _work = Work;
        sleep(Duration::from_secs(3600)).await;
        "done"
    };
    let c = serve(&wheel, "C", Router::new().route("/", routing::get(works))).await;
    let asks = {
        let client = client.clone();
        async move || {
            say("B");
            get(&client, &c).await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)
        }
    };
    let b = serve(&wheel, "B", Router::new().route("/", routing::get(asks))).await;
    let answer = wheel.deadline_in(Duration::from_millis(300)).scope(get(&client, &b)).await;
    println!("A is told: {:?}", answer.expect_err("C works for an hour"));
    sleep(Duration::from_millis(50)).await;
    println!("\nWhat it means: A's deadline ended the work of B and of C.");
}
