//! How does a client wait for the next item of a queue? By a condition that takes it, and that gives it back if the client is
//! gone by then.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_purgatory::{Purgatory, Watch};

#[derive(Clone)]
struct Queue {
    items: Arc<Mutex<Vec<&'static str>>>,
    waiting: Purgatory<()>,
}

impl Queue {
    fn push(&self, item: &'static str) {
        self.items.lock().unwrap().push(item);
        self.waiting.check(&());
    }

    fn pop(&self, limit: Duration) -> Watch<&'static str> {
        let (items, queue) = (self.items.clone(), self.clone());
        let watch = self.waiting.watch([()], limit, move || items.lock().unwrap().pop());
        watch.give_back(move |item| queue.push(item))
    }
}

#[tokio::main]
async fn main() {
    let queue = Queue { items: Arc::default(), waiting: Purgatory::new(&TimingWheel::new()) };
    let limit = Duration::from_millis(50);
    let (gone, waits) = (queue.pop(limit), queue.pop(limit));
    queue.push("a message");
    // The first client has it, and leaves without a look.
    drop(gone);
    println!("the second client has {:?}", waits.await);
    println!("the third client has {:?}", queue.pop(limit).await);
}
