//! What a comparison with the model would not show if the model were wrong too.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use timingwheel_durable::store::{
    Ask, Begun, Change, Counts, Ended, Failure, Kinds, Loaded, Move, Near, NewTimer, Owner, Page, Put,
    Removal, Saved, Series, Settled, State, Store, Stored, Taken, ToBegin, Which,
};
use timingwheel_durable::{Missed, Place, TimerId};

use super::{Home, at};

pub(super) async fn run<P: Home>(name: &str, mut home: P) {
    let hand = Hand { store: home.open().await };
    match name {
        "what_is_saved_is_there_after_reopening" => reopening(hand, home).await,
        "a_load_goes_on_from_its_end_and_looks_ahead" => hand.loads().await,
        "a_begin_that_is_made_again_is_the_same_attempt" => hand.begins_again().await,
        "results_of_a_lost_owner_are_refused" => hand.fences().await,
        "what_a_dead_owner_had_begun_is_cancelled_moved_and_replaced" => hand.dead_attempts().await,
        "what_is_buried_is_listed_retried_and_deleted" => hand.burials().await,
        "a_buried_run_of_a_series_is_retried_as_a_timer_of_its_own" => hand.series_burials().await,
        _ => panic!("there is no test {name}"),
    }
}

fn timer(due: i64, unique: u64) -> NewTimer {
    NewTimer::new(TimerId::new(at(due), unique), "kind", unique.to_string())
}

fn keyed(due: i64, unique: u64, key: &str) -> NewTimer {
    NewTimer { key: Some(key.into()), ..timer(due, unique) }
}

fn kinds() -> Kinds {
    Arc::new(BTreeSet::from(["kind".to_owned()]))
}

fn daily(hour: u32) -> Series {
    Series::new(format!("cron 0 {hour} * * * in UTC"), Missed::once())
}

/// The same timer, due then.
fn put(id: TimerId, due: i64, attempts: u32) -> Put {
    Put { timer: Near::new(id, at(due)), series: None, attempts, error: None }
}

fn again(id: TimerId, due: i64, attempts: u32) -> Change {
    Change::Put(put(id, due, attempts))
}

async fn reopening<P: Home>(hand: Hand<P::Store>, mut place: P) {
    let owner = hand.join().await;
    hand.save_all([timer(5, 1), keyed(-5, 2, "k"), timer(7, 3)]).await;
    hand.begin(owner, timer(5, 1)).await;
    hand.reschedule("k", 9).await;
    let page = Page::default();
    let before = hand.list(&page).await;
    assert_eq!(before.len(), 3);
    drop(hand);
    let again = Hand { store: place.open().await };
    assert_eq!(again.list(&page).await, before);
    let Move::Moved { from, .. } = again.reschedule("k", 8).await else { panic!("it has not begun") };
    assert_eq!(from.due(), at(9));
    assert!(again.join().await > owner);
}

/// Calls of which each has to succeed.
struct Hand<S> {
    store: S,
}

impl<S: Store> Hand<S> {
    async fn join(&self) -> Owner {
        self.store.join(Duration::from_secs(30), kinds()).await.expect("join")
    }

    async fn save(&self, timers: impl IntoIterator<Item = NewTimer>) -> Vec<Saved> {
        self.store.save(timers.into_iter().collect()).await.expect("save")
    }

    async fn load(&self, owner: Owner, after: Place, until: i64, limit: usize) -> Loaded {
        let kinds = kinds();
        self.store.load(owner, Ask { after, until: at(until), limit, kinds }).await.expect("load")
    }

    /// Where it was first due.
    async fn begin(&self, owner: Owner, timer: NewTimer) -> Begun {
        self.begin_at(owner, Near::from(timer.id)).await
    }

    async fn begin_at(&self, owner: Owner, near: Near) -> Begun {
        let ask = ToBegin { timers: vec![near], kinds: kinds() };
        self.store.begin(owner, ask).await.expect("begin").remove(0)
    }

    /// Of an attempt since whose begin nobody has changed the timer.
    async fn settle(&self, owner: Owner, timer: Near, attempt: u32, change: Change) -> Settled {
        self.settle_version(owner, 0, timer, attempt, change).await
    }

    async fn settle_version(
        &self,
        owner: Owner,
        version: u32,
        timer: Near,
        attempt: u32,
        change: Change,
    ) -> Settled {
        let ended = Ended { timer, attempt, version, change };
        self.store.settle(owner, vec![ended]).await.expect("settle").remove(0)
    }

    /// All of them are new.
    async fn save_all(&self, timers: impl IntoIterator<Item = NewTimer>) {
        let timers: Vec<NewTimer> = timers.into_iter().collect();
        let stored: Vec<Saved> = timers.iter().map(|timer| Saved::Stored(timer.id)).collect();
        assert_eq!(self.save(timers).await, stored);
    }

    async fn get(&self, which: impl Into<Which>) -> Option<Stored> {
        self.store.get(which.into()).await.expect("get")
    }

    async fn cancel(&self, which: impl Into<Which>) -> Removal {
        self.store.cancel(which.into()).await.expect("cancel")
    }

    async fn reschedule(&self, which: impl Into<Which>, due: i64) -> Move {
        self.store.reschedule(which.into(), at(due)).await.expect("reschedule")
    }

    async fn unbury(&self, id: TimerId, due: Option<i64>) -> Taken {
        self.store.unbury(id, due.map(at), 7).await.expect("unbury")
    }

    async fn list(&self, page: &Page) -> Vec<Stored> {
        self.store.list(page.clone()).await.expect("list")
    }

    async fn count(&self) -> Counts {
        self.store.count().await.expect("count")
    }
}

impl<S: Store> Hand<S> {
    async fn loads(&self) {
        let owner = self.join().await;
        let timers =
            [(-4, 9), (3, 2), (3, 1), (5, 1), (6, 7), (20, 1)].map(|(due, unique)| timer(due, unique));
        self.save_all(timers.clone()).await;
        let mut ids: Vec<TimerId> = timers.iter().map(|timer| timer.id).collect();
        ids.sort_unstable();
        let nears = |loaded: &Loaded| loaded.timers.iter().map(|near| near.id()).collect::<Vec<_>>();
        let first = self.load(owner, Place::FIRST, 10, 3).await;
        assert_eq!(nears(&first), ids[..3]);
        assert_eq!((first.end, first.next_due), (Near::from(ids[2]).place(), Some(at(5))));
        let rest = self.load(owner, first.end, 10, 3).await;
        assert_eq!(nears(&rest), ids[3..5]);
        assert_eq!((rest.end, rest.next_due), (Place::last_of(at(10)), Some(at(20))));
        let last = self.load(owner, rest.end, 100, 3).await;
        assert_eq!((nears(&last), last.next_due), (ids[5..].to_vec(), None));
        // It has written nothing.
        assert_eq!(self.load(owner, Place::FIRST, 10, 3).await, first);
        assert!(!first.lost);
    }

    async fn begins_again(&self) {
        let owner = self.join().await;
        let new = timer(1, 1);
        self.save_all([new.clone()]).await;
        for attempt in 1..4 {
            let first = self.begin(owner, new.clone()).await;
            assert!(matches!(&first, Begun::Yours(yours) if yours.attempts == attempt), "{first:?}");
            // As if the answer had been lost.
            assert_eq!(self.begin(owner, new.clone()).await, first);
            let settled = self.settle(owner, new.id.into(), attempt, again(new.id, 1, attempt)).await;
            assert_eq!(settled, Settled::Done, "attempt {attempt}");
        }
        let next = self.join().await;
        self.begin(next, new.clone()).await;
        let third = self.join().await;
        let Begun::Yours(yours) = self.begin(third, new).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 5, "another owner's begin counts");
    }

    async fn fences(&self) {
        let old = self.join().await;
        let (one, two) = (timer(1, 1), timer(2, 2));
        self.save_all([one.clone(), two.clone()]).await;
        self.begin(old, one.clone()).await;
        self.begin(old, two.clone()).await;
        let new = self.join().await;
        let done = Change::Delete;
        assert_eq!(self.settle(old, one.id.into(), 1, done.clone()).await, Settled::Fenced, "taken over");
        self.begin(new, one.clone()).await;
        assert_eq!(self.settle(old, one.id.into(), 1, done.clone()).await, Settled::Fenced, "begun anew");
        assert_eq!(
            self.settle(old, one.id.into(), 2, done.clone()).await,
            Settled::Fenced,
            "another's attempt"
        );
        assert_eq!(
            self.settle(new, one.id.into(), 1, done.clone()).await,
            Settled::Gone,
            "an attempt before"
        );
        assert_eq!(self.settle(new, two.id.into(), 1, done.clone()).await, Settled::Gone, "not begun");
        assert!(self.load(old, Place::FIRST, 10, 9).await.lost);
        assert_eq!(self.begin(old, two).await, Begun::Lost);
        assert_eq!(self.store.leave(old).await.expect("leave"), 0);
        assert_eq!(self.settle(new, one.id.into(), 2, done).await, Settled::Done);
    }

    async fn dead_attempts(&self) {
        let dead = self.join().await;
        let timers =
            [keyed(1, 1, "cancelled"), keyed(1, 2, "moved"), keyed(1, 3, "replaced"), keyed(1, 4, "ends")];
        self.save_all(timers.clone()).await;
        for timer in &timers {
            self.begin(dead, timer.clone()).await;
        }
        assert_eq!(self.cancel("ends").await, Removal::Running(timers[3].id, 1));
        let owner = self.join().await;
        let [cancelled, moved, replaced, ends] = timers.map(|timer| Near::from(timer.id));
        assert_eq!(self.cancel("cancelled").await, Removal::Removed(cancelled));
        let to = Near::new(moved.id(), at(4));
        assert_eq!(self.reschedule("moved", 4).await, Move::Moved { from: moved, to });
        let Begun::Yours(yours) = self.begin_at(owner, to).await else { panic!("it stands") };
        assert_eq!((yours.attempts, yours.crashes), (2, 1), "the attempt counts");
        let failures =
            [Failure { attempt: 1, error: "its process ended before it answered".into(), at: None }];
        assert_eq!(yours.failures, failures);
        assert_eq!(self.reschedule("ends", 9).await, Move::NotFound, "it was cancelled");
        assert_eq!(self.begin_at(owner, ends).await, Begun::Cancelled);
        assert_eq!(self.get("ends").await, None);
        let replaces = NewTimer { replaces: true, ..keyed(5, 5, "replaced") };
        assert_eq!(
            self.save([replaces.clone()]).await,
            [Saved::Replaced { id: replaces.id, dropped: replaced }]
        );
        let counts = self.count().await;
        assert_eq!((counts.stored, counts.begun, counts.buried), (1, 1, 0));
    }

    async fn burials(&self) {
        let owner = self.join().await;
        let new = keyed(1, 1, "k");
        self.save_all([new.clone()]).await;
        for attempt in 1..=12 {
            self.begin(owner, new.clone()).await;
            let error = Some(format!("error {attempt}"));
            let again = Change::Put(Put { error, ..put(new.id, 1, attempt) });
            self.settle(owner, new.id.into(), attempt, again).await;
        }
        self.begin(owner, new.clone()).await;
        let bury = Change::Bury { reason: "enough".into(), was_called: true, next: None };
        assert_eq!(self.settle(owner, new.id.into(), 13, bury).await, Settled::Done);
        assert!(self.load(owner, Place::FIRST, 10, 9).await.timers.is_empty());
        assert_eq!(self.get("k").await, None);
        let page = Page { buried: true, ..Page::default() };
        let buried = self.list(&page).await;
        assert!(matches!(&buried[0].state, State::Buried(why) if why.reason == "enough"), "{buried:?}");
        assert_eq!((buried[0].attempts, &buried[0].payload), (13, &new.payload));
        let errors: Vec<&str> = buried[0].failures.iter().map(|failure| failure.error.as_str()).collect();
        assert_eq!((errors.len(), errors[8], errors[9]), (10, "error 12", "enough"));
        self.save([keyed(2, 2, "k")]).await;
        assert_eq!(self.unbury(new.id, Some(7)).await, Taken::KeyTaken(keyed(2, 2, "k").id));
        self.cancel("k").await;
        let again = Near::new(new.id, at(7));
        assert_eq!(self.unbury(new.id, Some(7)).await, Taken::Stored(again));
        let Begun::Yours(yours) = self.begin_at(owner, again).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 1);
        let bury = Change::Bury { reason: "again".into(), was_called: true, next: None };
        self.settle(owner, again, 1, bury).await;
        assert_eq!(self.unbury(new.id, None).await, Taken::Deleted);
        assert_eq!(self.unbury(new.id, None).await, Taken::NotFound);
        assert_eq!(self.count().await, Counts::default());
    }

    async fn series_burials(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), replaces: true, ..keyed(1, 1, "s") };
        self.save_all([new.clone()]).await;
        self.begin(owner, new.clone()).await;
        let then = TimerId::new(at(200), 1);
        let next = Put { timer: then.into(), series: Some(daily(9)), attempts: 0, error: None };
        let bury = Change::Bury { reason: "no".into(), was_called: true, next: Some(next) };
        assert_eq!(self.settle(owner, new.id.into(), 1, bury).await, Settled::Done);
        let again = Near::new(TimerId::new(at(1), 7), at(200));
        assert_eq!(self.unbury(new.id, Some(200)).await, Taken::Stored(again), "while the series lives");
        let retried = self.get(again.id()).await.expect("it is stored");
        assert_eq!((retried.key, retried.series), (None, None), "a timer of its own");
        assert_eq!(self.get("s").await.expect("it lives").timer, then.into());
        assert_eq!(self.cancel("s").await, Removal::Removed(then.into()));
        assert!(matches!(self.begin_at(owner, again).await, Begun::Yours(_)));
        assert_eq!(self.settle(owner, again, 1, Change::Delete).await, Settled::Done);
        assert_eq!(self.count().await, Counts::default(), "nothing follows");
    }
}
