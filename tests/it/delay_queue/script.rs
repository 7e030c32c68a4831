//! Scripts for both queues: operations, and the items that come out.

use futures::StreamExt;
use tokio::time::{Instant, advance, sleep};

use super::time::DelayQueue;
use crate::delay_queue::scripts::Op;
use crate::ms;

/// An item that came, and its milliseconds.
pub(crate) type Log = Vec<(u128, u64)>;

/// All that comes out of a queue to which this is done, and then at its end.
pub(crate) async fn log(ops: &[Op]) -> Log {
    const APART: u64 = 256;
    let start = Instant::now();
    let at = |delay: u64, number: u64| {
        let after = u64::try_from((start.elapsed() + ms(delay)).as_millis()).unwrap();
        start + ms((after / APART + 1) * APART + number)
    };
    let mut queue = DelayQueue::new();
    let (mut keys, mut log) = (Vec::new(), Log::new());
    for (&op, number) in ops.iter().zip(0..APART) {
        match op {
            Op::Insert(delay) => keys.push((queue.insert_at(number, at(delay, number)), number, true)),
            Op::Remove(place) | Op::Reset(place, _) if place < keys.len() => {
                let (key, value, is_there) = &mut keys[place];
                if *is_there && let Op::Reset(_, delay) = op {
                    queue.reset_at(key, at(delay, number));
                } else if *is_there {
                    assert_eq!(queue.remove(key).into_inner(), *value);
                    *is_there = false;
                }
            }
            Op::Remove(_) | Op::Reset(..) => {}
            Op::Block(millis) => advance(ms(millis)).await,
            Op::Sleep(millis) => sleep(ms(millis)).await,
            Op::Take(millis) => {
                let until = Instant::now() + ms(millis);
                while let Ok(Some(expired)) = tokio::time::timeout_at(until, queue.next()).await {
                    log.push((start.elapsed().as_millis(), *expired.get_ref()));
                    assert_eq!(expired.deadline().duration_since(start).subsec_nanos() % 1_000_000, 0);
                    for (key, _, is_there) in &mut keys {
                        *is_there &= *key != expired.key();
                    }
                }
            }
            Op::Clear => {
                queue.clear();
                keys.iter_mut().for_each(|key| key.2 = false);
            }
            Op::Compact => queue.compact(),
        }
        assert_eq!(queue.len(), keys.iter().filter(|key| key.2).count());
    }
    while let Some(expired) = queue.next().await {
        log.push((start.elapsed().as_millis(), expired.into_inner()));
    }
    log
}
