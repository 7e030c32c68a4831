//! One owner after the other.

use timingwheel_durable::{Answer, Interrupt, Run};

use super::handlers::Number;
use super::support::{Rig, at, note, secs};

#[tokio::test(start_paused = true)]
async fn a_handler_whose_timer_is_lost_is_told_and_its_result_is_refused() {
    let rig = Rig::new();
    let told = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let tells = told.clone();
    let wheel = rig.wheel.clone();
    let handler = move |_: Number, run: Run| {
        let (tells, wheel) = (tells.clone(), wheel.clone());
        async move {
            if run.attempt == 1 {
                assert_eq!(run.interrupted(), None);
                run.token().cancelled().await;
                tells.store(run.interrupted() == Some(Interrupt::Lost), std::sync::atomic::Ordering::Relaxed);
                wheel.sleep(secs(5)).await;
            }
            Ok(Answer::Done)
        }
    };
    let old = rig.builder().on(handler.clone()).start().await.unwrap();
    old.at(at(1.0), &Number { number: 1 }).save().await.unwrap();
    rig.sleep(2.0).await;
    let new = rig.builder().on(handler).start().await.unwrap();
    rig.sleep(2.0).await;
    assert_eq!(new.stats().done, 1, "attempted again");
    // The old owner finds out by its next call.
    assert_eq!(old.at(at(5.0), &note("another")).save().await.map(drop).ok(), Some(()));
    rig.sleep(2.0).await;
    assert!(told.load(std::sync::atomic::Ordering::Relaxed) && old.stats().lost);
    rig.sleep(10.0).await;
    assert_eq!((old.stats().done, old.stats().fenced), (0, 1));
}
