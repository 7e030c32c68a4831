//! A user's code never runs under a lock: keys, conditions and outputs may ask for the purgatory wherever they are hashed,
//! compared, called and dropped.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_purgatory::Purgatory;
use tokio::runtime::Builder;

use crate::{DAY, HANG_GUARD, ms};

/// What asks.
#[derive(Clone, Copy)]
enum By {
    Hash,
    Eq,
    Drop,
    Condition,
}

#[derive(Default)]
struct Shared {
    purgatory: OnceLock<Purgatory<Asks>>,
    /// How often each has asked.
    asked: [AtomicUsize; 4],
}

/// Looks at all operations whatever is done with it. All have the same hash.
struct Asks(u8, Arc<Shared>);

impl Asks {
    fn ask(&self, by: By) {
        if let Some(purgatory) = self.1.purgatory.get() {
            _ = (purgatory.watched(), purgatory.delayed());
            self.1.asked[by as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl PartialEq for Asks {
    fn eq(&self, other: &Self) -> bool {
        self.ask(By::Eq);
        self.0 == other.0
    }
}

impl Eq for Asks {}

impl Hash for Asks {
    fn hash<H: Hasher>(&self, _: &mut H) {
        self.ask(By::Hash);
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        self.ask(By::Drop);
    }
}

/// Runs an operation's whole life, on a thread that is left alone if it hangs.
#[test]
fn a_hash_a_comparison_a_condition_and_the_drop_of_each_may_ask_for_the_purgatory() {
    let (done, is_done) = channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let cell = Arc::new(Shared::default());
            let asks = |number| Asks(number, cell.clone());
            let purgatory = cell.purgatory.get_or_init(|| Purgatory::new(&TimingWheel::new()));
            let holds = Arc::new(OnceLock::new());
            let watch = |key: u8, delay: Duration| {
                let (condition, output, holds) = (asks(key), cell.clone(), holds.clone());
                let keys = [asks(key), asks(key), asks(key + 1)];
                purgatory.watch(keys, delay, move || {
                    condition.ask(By::Condition);
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
            assert!(cell.asked.iter().all(|asked| asked.load(Ordering::Relaxed) > 0), "{:?}", cell.asked);
        });
        done.send(()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(HANG_GUARD), Ok(()), "it waits for its own lock");
}
