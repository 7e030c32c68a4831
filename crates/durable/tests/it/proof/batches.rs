//! Batches that the store does not take: halves of them go again, until the culprit stands alone.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::store::{Change, Ended, NewTimer, ToBegin};
use timingwheel_durable::{Answer, Durable, Error, Kind, MemoryStore, Page, Run, State};

use super::hooked::{Hook, Hooked, Injected, Refused, Step};

#[derive(Serialize, Deserialize)]
struct Tick(u64);

impl Kind for Tick {
    const KIND: &'static str = "tick";
}

/// Takes no more than so many timers in a begin, and never stores a timer of this payload or the end of this timer, unless that is
/// buried.
#[derive(Clone, Default)]
struct Picky {
    most: usize,
    payload: Option<&'static [u8]>,
    end_of: Arc<Mutex<Option<u64>>>,
    /// How many ends came in each call that had this one.
    ends: Arc<Mutex<Vec<usize>>>,
    /// This timer cannot begin.
    begin_of: Arc<Mutex<Option<u64>>>,
    /// How many were to begin in each call.
    begins: Arc<Mutex<Vec<usize>>>,
}

impl Hook for Picky {
    async fn at(&self, call: &'static str, step: Step) -> Result<(), Injected> {
        if (call, step) == ("settle", Step::Before) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    fn takes(&self, _: &'static str, arguments: &[&dyn Any]) -> Result<(), Refused> {
        for argument in arguments {
            if let Some(ToBegin { timers, .. }) = argument.downcast_ref() {
                self.begins.lock().unwrap().push(timers.len());
                if timers.len() > self.most {
                    return Err(Refused::TooMuch);
                }
                let begin_of = *self.begin_of.lock().unwrap();
                if timers.iter().any(|timer| Some(timer.id().unique()) == begin_of) {
                    return Err(Refused::Culprit);
                }
            } else if let Some(timers) = argument.downcast_ref::<Vec<NewTimer>>() {
                if timers.iter().any(|timer| Some(timer.payload.as_slice()) == self.payload) {
                    return Err(Refused::Culprit);
                }
            } else if let Some(ends) = argument.downcast_ref::<Vec<Ended>>() {
                let end_of = *self.end_of.lock().unwrap();
                let is_culprit = |ended: &Ended| {
                    Some(ended.timer.id().unique()) == end_of && !matches!(ended.change, Change::Bury { .. })
                };
                if ends.iter().any(is_culprit) {
                    self.ends.lock().unwrap().push(ends.len());
                    return Err(Refused::Culprit);
                }
            }
        }
        Ok(())
    }
}

async fn started(picky: &Picky) -> (TimingWheel, Durable) {
    started_with(picky, 1_024).await
}

/// So many handlers run at once.
async fn started_with(picky: &Picky, concurrency: usize) -> (TimingWheel, Durable) {
    let wheel = TimingWheel::new();
    let store = Hooked { store: MemoryStore::new(), hook: picky.clone() };
    let builder = Durable::builder(&wheel, store).on(|_: Tick, _: Run| async { Ok(Answer::Done) });
    let durable = builder.concurrency(concurrency).start().await.unwrap();
    (wheel, durable)
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_takes_too_long_is_made_again_with_half_as_many() {
    let picky = Picky { most: 10, ..Picky::default() };
    let (wheel, durable) = started(&picky).await;
    let due = durable.now() + Duration::from_secs(1);
    for number in 0..1_000 {
        durable.at(due, &Tick(number)).save().await.unwrap();
    }
    wheel.sleep(Duration::from_secs(120)).await;
    assert_eq!(durable.stats().done, 1_000);
    let begins = picky.begins.lock().unwrap();
    assert!(begins[0] > 80, "{begins:?}");
    let is_halved = |pair: &[usize]| pair[0] <= 10 || pair[1] == pair[0] / 2;
    assert!(begins.windows(2).all(is_halved), "{begins:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_stored_is_buried_alone_and_all_others_end() {
    let picky = Picky { most: usize::MAX, ..Picky::default() };
    let (wheel, durable) = started(&picky).await;
    let due = durable.now() + Duration::from_secs(1);
    for number in 0..100 {
        let id = durable.at(due, &Tick(number)).save().await.unwrap();
        if number == 37 {
            *picky.end_of.lock().unwrap() = Some(id.unique());
        }
    }
    wheel.sleep(Duration::from_secs(2)).await;
    assert_eq!(durable.stats().done, 99, "they do not wait for it");
    // It is buried once the store has taken others since.
    durable.after(Duration::ZERO, &Tick(100)).save().await.unwrap();
    wheel.sleep(Duration::from_secs(5)).await;
    assert_eq!((durable.stats().done, durable.stats().buried), (100, 1));
    assert!(durable.stats().store_errors > 0, "each refusal is counted");
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.unwrap();
    let State::Buried(why) = &buried[0].state else { panic!("{buried:?}") };
    assert_eq!(why.reason, "its end cannot be stored: refused: Culprit");
    assert_eq!(buried[0].payload, b"37");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_stored_gives_back_the_only_place_for_a_handler() {
    let picky = Picky { most: usize::MAX, ..Picky::default() };
    let (wheel, durable) = started_with(&picky, 1).await;
    let due = durable.now() + Duration::from_secs(1);
    let culprit = durable.at(due, &Tick(0)).save().await.unwrap();
    *picky.end_of.lock().unwrap() = Some(culprit.unique());
    for number in 1..10 {
        durable.at(due + Duration::from_secs(1), &Tick(number)).save().await.unwrap();
    }
    wheel.sleep(Duration::from_secs(10)).await;
    assert_eq!((durable.stats().done, durable.stats().buried), (9, 1));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_stored_stands_alone_soon_however_many_others_end_meanwhile() {
    let picky = Picky { most: usize::MAX, ..Picky::default() };
    let (wheel, durable) = started(&picky).await;
    let due = durable.now() + Duration::from_secs(1);
    let ticks: Vec<Tick> = (0..20_000).map(Tick).collect();
    // Some end in each millisecond, so that more come during each call.
    let saves = ticks.iter().map(|tick| durable.at(due + Duration::from_millis(tick.0 / 20), tick));
    let saved = durable.save_all(saves).await;
    *picky.end_of.lock().unwrap() = Some(saved[5_000].as_ref().unwrap().unique());
    wheel.sleep(Duration::from_millis(1_700)).await;
    let ends = picky.ends.lock().unwrap().clone();
    assert_eq!(ends.last(), Some(&1), "{ends:?}");
    assert!(ends.len() < 12 && ends.windows(2).all(|pair| pair[1] <= pair[0]), "{ends:?}");
    wheel.sleep(Duration::from_secs(10)).await;
    assert_eq!((durable.stats().done, durable.stats().buried), (19_999, 1));
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_cannot_be_begun_is_asked_for_alone_and_now_and_then() {
    let picky = Picky { most: usize::MAX, ..Picky::default() };
    let (wheel, durable) = started(&picky).await;
    let due = durable.now() + Duration::from_secs(1);
    for number in 0..100 {
        let id = durable.at(due, &Tick(number)).save().await.unwrap();
        if number == 37 {
            *picky.begin_of.lock().unwrap() = Some(id.unique());
        }
    }
    wheel.sleep(Duration::from_secs(30)).await;
    assert_eq!(durable.stats().done, 99);
    let begins = picky.begins.lock().unwrap().len();
    wheel.sleep(Duration::from_secs(600)).await;
    assert!((1..=10).contains(&(picky.begins.lock().unwrap().len() - begins)));
    *picky.begin_of.lock().unwrap() = None;
    wheel.sleep(Duration::from_secs(61)).await;
    assert_eq!(durable.stats().done, 100);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_cannot_be_stored_fails_its_own_save_and_no_other() {
    let picky = Picky { most: usize::MAX, payload: Some(b"37"), ..Picky::default() };
    let (_wheel, durable) = started(&picky).await;
    let ticks: Vec<Tick> = (0..100).map(Tick).collect();
    let saves = ticks.iter().map(|tick| durable.after(Duration::from_secs(3_600), tick).save());
    let saved = futures::future::join_all(saves).await;
    let failed: Vec<usize> = (0..100).filter(|number| saved[*number].is_err()).collect();
    assert_eq!(failed, [37]);
    assert!(matches!(&saved[37], Err(Error::Store { is_transient: false, .. })), "{:?}", saved[37]);
    assert_eq!(durable.count().await.unwrap().stored, 99);
    assert!(durable.stats().save_batches < 20, "halves, and not one by one");
}
