//! A user's code never runs under a lock: keys, conditions and outputs may ask for the purgatory wherever they are hashed,
//! compared, called and dropped.

use std::hash::{Hash, Hasher};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_purgatory::Purgatory;
use tokio::runtime::Builder;

use crate::{DAY, ms};

/// Looks at all operations, and at those under its own key, whatever is done with it. All have the same hash.
struct Asks(u8, Arc<OnceLock<Purgatory<Asks>>>);

impl Asks {
    fn ask(&self) {
        if let Some(purgatory) = self.1.get() {
            _ = (purgatory.watched(), purgatory.delayed());
        }
    }
}

impl PartialEq for Asks {
    fn eq(&self, other: &Self) -> bool {
        self.ask();
        self.0 == other.0
    }
}

impl Eq for Asks {}

impl Hash for Asks {
    fn hash<H: Hasher>(&self, _: &mut H) {
        self.ask();
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        self.ask();
    }
}

#[test]
fn keys_conditions_and_outputs_may_ask_for_the_purgatory_wherever_they_are_used() {
    let (done, is_done) = channel();
    // A thread that hangs is left alone.
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let cell = Arc::new(OnceLock::new());
            let asks = |number| Asks(number, cell.clone());
            let purgatory = cell.get_or_init(|| Purgatory::new(&TimingWheel::new()));
            let holds = Arc::new(OnceLock::new());
            let watch = |key: u8, delay: Duration| {
                let (condition, output, holds) = (asks(key), cell.clone(), holds.clone());
                let keys = [asks(key), asks(key), asks(key + 1)];
                purgatory.watch(keys, delay, move || {
                    condition.ask();
                    holds.get().map(|()| Asks(condition.0, output.clone()))
                })
            };
            let mut operations: Vec<_> = (0..20).map(|key| watch(key, DAY)).collect();
            assert_eq!((purgatory.watched(), purgatory.delayed()), (40, 20));
            assert_eq!((purgatory.watched_under(&asks(5)), purgatory.check(&asks(5))), (2, 0));
            assert_eq!(purgatory.cancel(&asks(0)), 1);
            assert!(watch(50, ms(1)).await.is_err(), "expired");
            drop(operations.split_off(15));
            holds.set(()).unwrap();
            assert_eq!(purgatory.check(&asks(5)), 2);
            assert!(operations.swap_remove(5).await.is_ok());
            assert_eq!(purgatory.shutdown(), 12);
            drop(operations);
            assert_eq!((purgatory.watched(), purgatory.delayed()), (0, 0));
        });
        done.send(()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(()), "it waits for its own lock");
}
