//! How do I cancel a part of a request, and the whole of it?
//!
//! `cargo run -p timingwheel-deadline --example child`

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::DeadlineExt;
use tokio::time::sleep;

#[tokio::main]
async fn main() {
    let request = TimingWheel::new().deadline_in(Duration::from_secs(2));
    let (search, images) = (request.child(), request.child_in(Duration::from_secs(1)));
    let hour = Duration::from_secs(3600);
    let search_task = tokio::spawn(search.run(sleep(hour)));
    let images_task = tokio::spawn(images.run(sleep(hour)));

    println!("nobody looks at the images: {}", images.cancel());
    println!("the images: {:?}", images_task.await.expect("it does not panic"));
    println!("the request goes on: {request:?}");
    println!("the user leaves: {}", request.cancel());
    println!("the search: {:?}", search_task.await.expect("it does not panic"));
}
