//! Each promise of a store, by a few calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Home;
use crate::Missed;
use crate::id::{self, TimerId};
use crate::store::{
    Ask, Begun, Change, Counts, Ended, Kinds, Loaded, Move, Near, NewTimer, Owner, Page, Put, Removal, Saved,
    Series, Settled, State, Store, Stored, Taken, ToBegin, Which,
};

macro_rules! tests {
    ($($name:ident = $call:ident;)*) => {
        /// The tests that [`conformance!`](crate::conformance!) makes.
        pub const TESTS: [&str; 23] = [
            "random_calls_are_answered_as_by_a_plain_model",
            "what_is_saved_is_there_after_reopening",
            $(stringify!($name)),*
        ];

        pub(super) async fn run<P: Home>(name: &str, mut home: P) {
            let hand = Hand { store: home.open().await };
            match name {
                "what_is_saved_is_there_after_reopening" => reopening(hand, home).await,
                $(stringify!($name) => hand.$call().await,)*
                _ => panic!("there is no test {name}"),
            }
        }
    };
}

tests! {
    a_taken_key_is_told_and_not_overwritten = taken_keys;
    a_key_is_free_again_after_its_timer = free_keys;
    a_load_goes_on_from_its_end_and_looks_ahead = loads;
    kinds_without_a_handler_are_left_alone = kinds;
    a_cancel_wins_until_begin_and_never_after = cancels;
    a_moved_timer_keeps_its_name_and_begins_at_its_new_place_only = moves;
    attempts_count_over_owners = attempts;
    a_begin_that_is_made_again_is_the_same_attempt = begins_again;
    results_of_a_lost_owner_are_refused = fences;
    what_an_owner_leaves_is_stored_again = leaves;
    nothing_follows_what_was_cancelled_while_it_ran = endings;
    a_series_goes_on_in_the_transaction_that_ends_a_run = series;
    an_end_that_was_decided_before_a_change_is_refused_with_the_row = changes;
    a_pending_run_stays_if_its_series_is_saved_with_another_payload_or_policy = updates;
    a_rule_that_is_over_stores_nothing_and_keeps_its_pending_run = overs;
    a_key_of_a_timer_that_has_begun_goes_to_the_one_that_replaces_it = followers;
    what_was_cancelled_and_given_back_is_removed_by_the_next_cancel_or_begin = given_back;
    a_pending_run_is_put_elsewhere_unless_it_has_changed = planned_anew;
    a_series_that_is_attempted_again_keeps_where_it_stood = standings;
    what_a_dead_owner_had_begun_is_cancelled_moved_and_replaced = dead_attempts;
    what_is_buried_is_listed_retried_and_deleted = burials;
}

fn at(millis: i64) -> Timestamp {
    id::timestamp(millis)
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

/// The next occurrence of a series.
fn next(unique: u64, due: i64, series: &Series) -> Put {
    let id = TimerId::new(at(due), unique);
    Put { timer: id.into(), series: Some(series.clone()), attempts: 0, error: None }
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
        self.store.join(Duration::from_secs(30), true).await.expect("join")
    }

    async fn save(&self, timers: impl IntoIterator<Item = NewTimer>) -> Vec<Saved> {
        self.store.save(timers.into_iter().collect()).await.expect("save")
    }

    async fn load(&self, owner: Owner, after: id::Place, until: i64, limit: usize) -> Loaded {
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
        self.store.unbury(id, due.map(at)).await.expect("unbury")
    }

    async fn list(&self, page: &Page) -> Vec<Stored> {
        self.store.list(page.clone()).await.expect("list")
    }

    async fn count(&self) -> Counts {
        self.store.count().await.expect("count")
    }
}

/// Saves, loads, cancels and moves.
impl<S: Store> Hand<S> {
    async fn taken_keys(&self) {
        let first = keyed(5, 1, "k");
        assert_eq!(
            self.save([first.clone(), keyed(6, 2, "k"), keyed(7, 3, "other")]).await,
            [Saved::Stored(first.id), Saved::KeyTaken(first.id), Saved::Stored(keyed(7, 3, "other").id)]
        );
        let replaces = NewTimer { replaces: true, ..keyed(8, 4, "k") };
        assert_eq!(
            self.save([replaces.clone()]).await,
            [Saved::Replaced { id: replaces.id, dropped: first.id.into() }]
        );
        assert_eq!(self.cancel(first.id).await, Removal::NotFound);
        let owner = self.join().await;
        assert!(matches!(self.begin(owner, replaces.clone()).await, Begun::Yours(_)));
        assert_eq!(self.save([keyed(9, 5, "k")]).await, [Saved::KeyTaken(replaces.id)]);
        assert_eq!(self.count().await, Counts { stored: 1, begun: 1, buried: 0 });
    }

    async fn free_keys(&self) {
        let owner = self.join().await;
        self.save_all([keyed(1, 1, "k")]).await;
        self.cancel("k").await;
        self.save_all([keyed(2, 2, "k")]).await;
        self.begin(owner, keyed(2, 2, "k")).await;
        let near = keyed(2, 2, "k").id.into();
        let done = self.settle(owner, near, 1, Change::Delete).await;
        assert_eq!(done, Settled::Done);
        self.save_all([keyed(3, 3, "k")]).await;
        self.begin(owner, keyed(3, 3, "k")).await;
        let bury = Change::Bury { reason: "no".into(), next: None };
        self.settle(owner, keyed(3, 3, "k").id.into(), 1, bury).await;
        self.save_all([keyed(4, 4, "k")]).await;
    }

    async fn loads(&self) {
        let owner = self.join().await;
        let timers =
            [(-4, 9), (3, 2), (3, 1), (5, 1), (6, 7), (20, 1)].map(|(due, unique)| timer(due, unique));
        self.save_all(timers.clone()).await;
        let mut ids: Vec<TimerId> = timers.iter().map(|timer| timer.id).collect();
        ids.sort_unstable();
        let nears = |loaded: &Loaded| loaded.timers.iter().map(|near| near.id()).collect::<Vec<_>>();
        let first = self.load(owner, id::Place::FIRST, 10, 3).await;
        assert_eq!(nears(&first), ids[..3]);
        assert_eq!((first.end, first.next_due), (Near::from(ids[2]).place(), Some(at(5))));
        let rest = self.load(owner, first.end, 10, 3).await;
        assert_eq!(nears(&rest), ids[3..5]);
        assert_eq!((rest.end, rest.next_due), (id::Place::last_of(at(10)), Some(at(20))));
        let last = self.load(owner, rest.end, 100, 3).await;
        assert_eq!((nears(&last), last.next_due), (ids[5..].to_vec(), None));
        // It has written nothing.
        assert_eq!(self.load(owner, id::Place::FIRST, 10, 3).await, first);
        assert!(!first.lost);
    }

    async fn kinds(&self) {
        let owner = self.join().await;
        let unknown = (0..50).map(|unique| NewTimer { kind: "unknown".into(), ..timer(1, unique) });
        self.save_all(unknown.chain([timer(2, 99)])).await;
        let (mut after, mut loaded) = (id::Place::FIRST, Vec::new());
        for _ in 0..100 {
            let load = self.load(owner, after, 10, 3).await;
            after = load.end;
            loaded.extend(load.timers);
        }
        assert_eq!(loaded, [Near::from(timer(2, 99).id)]);
        let unknown = NewTimer { kind: "unknown".into(), ..timer(1, 7) };
        assert_eq!(self.begin(owner, unknown).await, Begun::Gone, "also where it was moved, and not loaded");
        assert_eq!(self.count().await.stored, 51);
    }

    async fn cancels(&self) {
        let owner = self.join().await;
        let (armed, begun) = (timer(1, 1), timer(1, 2));
        self.save_all([armed.clone(), begun.clone()]).await;
        let loaded = self.load(owner, id::Place::FIRST, 10, 9).await;
        assert_eq!(self.cancel(armed.id).await, Removal::Removed(armed.id.into()));
        assert_eq!(self.cancel(armed.id).await, Removal::NotFound);
        let ask = ToBegin { timers: loaded.timers, kinds: kinds() };
        let answers = self.store.begin(owner, ask).await.expect("begin");
        assert_eq!(answers[0], Begun::Gone);
        let Begun::Yours(yours) = &answers[1] else { panic!("{answers:?}") };
        assert_eq!((yours.timer.id(), yours.attempts, &yours.payload), (begun.id, 1, &begun.payload));
        assert_eq!(yours.state, State::Begun { epoch: owner.epoch, attempt: 1 });
        assert_eq!(self.cancel(begun.id).await, Removal::Running(begun.id, 1));
        assert_eq!(self.reschedule(begun.id, 99).await, Move::Running(begun.id, 1));
        assert_eq!(self.settle_version(owner, 1, begun.id.into(), 1, Change::Delete).await, Settled::Done);
        assert_eq!(self.cancel(begun.id).await, Removal::NotFound);
    }

    async fn moves(&self) {
        let owner = self.join().await;
        let new = keyed(5, 1, "k");
        self.save_all([new.clone()]).await;
        let (from, to) = (Near::from(new.id), Near::new(new.id, at(3)));
        assert_eq!(self.reschedule(new.id, 3).await, Move::Moved { from, to });
        assert_eq!(self.begin_at(owner, from).await, Begun::Gone);
        assert_eq!(self.reschedule("k", 4).await, Move::Moved { from: to, to: Near::new(new.id, at(4)) });
        let loaded = self.load(owner, id::Place::FIRST, 10, 9).await;
        assert_eq!(loaded.timers, [Near::new(new.id, at(4))]);
        assert!(matches!(self.begin_at(owner, loaded.timers[0]).await, Begun::Yours(_)));
        let next = Near::new(new.id, at(8));
        let again = Change::Put(Put { error: Some("no".into()), ..put(new.id, 8, 1) });
        assert_eq!(self.settle(owner, loaded.timers[0], 1, again).await, Settled::Done);
        let found = self.get("k").await.expect("it is stored");
        assert_eq!((found.timer, found.attempts, found.failures.len()), (next, 1, 1));
        assert_eq!(self.get(new.id).await, Some(found), "also by its id");
        let back = self.reschedule(new.id, 5).await;
        assert_eq!(back, Move::Moved { from: next, to: from });
        assert_eq!(self.cancel("k").await, Removal::Removed(from));
        assert_eq!(self.reschedule(new.id, 5).await, Move::NotFound);
    }
}

/// Attempts, and whose they are.
impl<S: Store> Hand<S> {
    async fn attempts(&self) {
        let new = timer(1, 1);
        self.save_all([new.clone()]).await;
        for attempt in 1..4 {
            let owner = self.join().await;
            let loaded = self.load(owner, id::Place::FIRST, 10, 9).await;
            assert_eq!(loaded.timers, [Near::from(new.id)], "begun by an earlier owner");
            let Begun::Yours(yours) = self.begin(owner, new.clone()).await else { panic!("it stands") };
            assert_eq!(yours.attempts, attempt);
            assert!(self.load(owner, id::Place::FIRST, 10, 9).await.timers.is_empty(), "begun by this one");
        }
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
        assert_eq!(self.settle(old, one.id.into(), 1, done.clone()).await, Settled::Lost, "taken over");
        self.begin(new, one.clone()).await;
        assert_eq!(self.settle(old, one.id.into(), 1, done.clone()).await, Settled::Lost, "begun anew");
        assert_eq!(
            self.settle(old, one.id.into(), 2, done.clone()).await,
            Settled::Lost,
            "another's attempt"
        );
        assert_eq!(
            self.settle(new, one.id.into(), 1, done.clone()).await,
            Settled::Gone,
            "an attempt before"
        );
        assert_eq!(self.settle(new, two.id.into(), 1, done.clone()).await, Settled::Gone, "not begun");
        assert!(self.load(old, id::Place::FIRST, 10, 9).await.lost);
        assert_eq!(self.begin(old, two).await, Begun::Lost);
        assert_eq!(self.store.leave(old).await.expect("leave"), 0);
        assert_eq!(self.settle(new, one.id.into(), 2, done).await, Settled::Done);
    }

    async fn leaves(&self) {
        let owner = self.join().await;
        let (one, two) = (timer(1, 1), timer(2, 2));
        self.save_all([one.clone(), two]).await;
        self.begin(owner, one.clone()).await;
        assert_eq!(self.store.leave(owner).await.expect("leave"), 1);
        assert_eq!(self.count().await, Counts { stored: 2, begun: 0, buried: 0 });
        assert_eq!(self.settle(owner, one.id.into(), 1, Change::Delete).await, Settled::Lost);
        let next = self.join().await;
        let Begun::Yours(yours) = self.begin(next, one).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 2);
    }

    async fn dead_attempts(&self) {
        let dead = self.join().await;
        let timers = [keyed(1, 1, "cancelled"), keyed(1, 2, "moved"), keyed(1, 3, "replaced")];
        self.save_all(timers.clone()).await;
        for timer in &timers {
            self.begin(dead, timer.clone()).await;
        }
        let owner = self.join().await;
        let [cancelled, moved, replaced] = timers.map(|timer| Near::from(timer.id));
        assert_eq!(self.cancel("cancelled").await, Removal::Removed(cancelled));
        let to = Near::new(moved.id(), at(4));
        assert_eq!(self.reschedule("moved", 4).await, Move::Moved { from: moved, to });
        let Begun::Yours(yours) = self.begin_at(owner, to).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 2, "the attempt counts");
        let replaces = NewTimer { replaces: true, ..keyed(5, 5, "replaced") };
        assert_eq!(
            self.save([replaces.clone()]).await,
            [Saved::Replaced { id: replaces.id, dropped: replaced }]
        );
        assert_eq!(self.count().await, Counts { stored: 1, begun: 1, buried: 0 });
    }

    async fn endings(&self) {
        let owner = self.join().await;
        let dies = timer(1, 3);
        self.save_all([dies.clone()]).await;
        self.begin(owner, dies.clone()).await;
        assert_eq!(self.cancel(dies.id).await, Removal::Running(dies.id, 1));
        let other = self.join().await;
        assert_eq!(self.reschedule(dies.id, 9).await, Move::NotFound, "it is not to be due again");
        let Begun::Yours(yours) = self.begin(other, dies).await else { panic!("it is attempted again") };
        assert!(yours.ending);
        assert_eq!(self.count().await, Counts { stored: 0, begun: 1, buried: 0 });
    }

    async fn given_back(&self) {
        let owner = self.join().await;
        let (cancelled, begun, key) = (timer(1, 1), timer(1, 2), keyed(1, 3, "k"));
        self.save_all([cancelled.clone(), begun.clone(), key.clone()]).await;
        for timer in [&cancelled, &begun, &key] {
            self.begin(owner, timer.clone()).await;
            assert_eq!(self.cancel(timer.id).await, Removal::Running(timer.id, 1));
            let back = again(timer.id, 1, 0);
            assert_eq!(self.settle_version(owner, 1, timer.id.into(), 1, back).await, Settled::Done);
        }
        assert_eq!(self.reschedule(cancelled.id, 9).await, Move::NotFound);
        assert_eq!(self.cancel(cancelled.id).await, Removal::Removed(cancelled.id.into()));
        assert_eq!(self.begin(owner, begun).await, Begun::Gone);
        let next = keyed(5, 4, "k");
        assert_eq!(self.save([next.clone()]).await, [Saved::Stored(next.id)], "its key is free");
        assert_eq!(self.count().await, Counts { stored: 1, begun: 0, buried: 0 });
    }
}

/// Series, and what is buried.
impl<S: Store> Hand<S> {
    async fn series(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), replaces: true, ..keyed(1, 1, "s") };
        self.save_all([new.clone()]).await;
        let same = NewTimer { id: TimerId::new(at(3), 3), ..new.clone() };
        assert_eq!(self.save([same]).await, [Saved::Kept(new.id)]);
        self.begin(owner, new.clone()).await;
        let mut then = daily(9).planned_after(at(70));
        then.catching_up = Some((5, 2));
        let put = Change::Put(next(1, 100, &then));
        let then_id = TimerId::new(at(100), 1);
        assert_eq!(self.settle(owner, new.id.into(), 1, put.clone()).await, Settled::Done);
        assert_eq!(self.settle(owner, new.id.into(), 1, put).await, Settled::Gone, "once");
        let only_series = Page { only_series: true, ..Page::default() };
        self.save_all([timer(50, 9)]).await;
        let listed = self.list(&only_series).await;
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].timer, listed[0].attempts), (then_id.into(), 0));
        assert_eq!((&listed[0].series, listed[0].key.as_deref()), (&Some(then), Some("s")));
        let Begun::Yours(_) = self.begin_at(owner, then_id.into()).await else { panic!("it stands") };
        let bury = Change::Bury { reason: "no".into(), next: Some(next(1, 200, &daily(9))) };
        let after = TimerId::new(at(200), 1);
        assert_eq!(self.settle(owner, then_id.into(), 1, bury).await, Settled::Done);
        assert_eq!(
            self.list(&only_series).await[0].timer,
            after.into(),
            "a series goes on over what is buried"
        );
        assert_eq!(self.cancel("s").await, Removal::Removed(after.into()));
        assert_eq!(self.list(&only_series).await, []);
        assert_eq!(self.count().await, Counts { stored: 1, begun: 0, buried: 1 });
    }

    async fn changes(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), replaces: true, ..keyed(1, 1, "s") };
        self.save_all([new.clone()]).await;
        let Begun::Yours(before) = self.begin(owner, new.clone()).await else { panic!("it stands") };
        let rule = NewTimer { series: Some(daily(10)), id: TimerId::new(at(50), 5), ..new.clone() };
        assert_eq!(self.save([rule]).await, [Saved::Updated(new.id)]);
        for change in [
            Change::Delete,
            Change::Put(next(1, 100, &daily(9))),
            Change::Bury { reason: "over".into(), next: None },
        ] {
            let told = self.settle(owner, new.id.into(), 1, change).await;
            let Settled::Changed(now) = told else { panic!("{told:?}") };
            assert_eq!((now.series, now.version, now.ending), (Some(daily(10)), before.version + 1, false));
            assert_eq!(now.state, State::Begun { epoch: owner.epoch, attempt: 1 });
        }
        assert_eq!(self.cancel("s").await, Removal::Running(new.id, 1));
        assert_eq!(self.cancel("s").await, Removal::Running(new.id, 1), "which changes nothing");
        let put = Change::Put(next(1, 100, &daily(10)));
        let told = self.settle_version(owner, 1, new.id.into(), 1, put).await;
        let Settled::Changed(now) = told else { panic!("{told:?}") };
        assert!(now.ending && now.version == 2, "{now:?}");
        assert_eq!(self.count().await, Counts { stored: 0, begun: 1, buried: 0 });
        assert_eq!(self.settle_version(owner, 2, new.id.into(), 1, Change::Delete).await, Settled::Done);
        assert_eq!(self.count().await, Counts::default());
    }

    async fn updates(&self) {
        let owner = self.join().await;
        let series = daily(9).planned_after(at(0));
        let new = NewTimer { series: Some(series.clone()), replaces: true, ..keyed(1, 1, "s") };
        self.save_all([new.clone()]).await;
        // Its first attempt has failed, and the second waits.
        self.begin(owner, new.clone()).await;
        let failed = Put { series: Some(series.clone()), error: Some("no".into()), ..put(new.id, 7, 1) };
        self.settle(owner, new.id.into(), 1, Change::Put(failed)).await;
        let payload = NewTimer { id: TimerId::new(at(50), 5), payload: b"2".to_vec(), ..new.clone() };
        assert_eq!(self.save([payload.clone()]).await, [Saved::Updated(new.id)]);
        let policy = Series { missed: Missed::none(), ..series.clone() }.planned_after(at(40));
        let both = NewTimer { series: Some(policy), ..payload };
        assert_eq!(self.save([both.clone()]).await, [Saved::Updated(new.id)]);
        assert_eq!(self.save([both.clone()]).await, [Saved::Kept(new.id)]);
        let found = self.get("s").await.expect("it is pending");
        assert_eq!((found.timer, found.attempts, found.failures.len()), (Near::new(new.id, at(7)), 1, 1));
        assert_eq!(found.payload, b"2");
        assert_eq!(
            found.series,
            Some(Series { missed: Missed::none(), ..series.clone() }),
            "it stands where it stood"
        );
        // The same where its process died in the middle.
        self.begin_at(owner, found.timer).await;
        let owner = self.join().await;
        assert_eq!(self.save([new.clone()]).await, [Saved::Updated(new.id)]);
        let Begun::Yours(yours) = self.begin_at(owner, found.timer).await else { panic!("it stands") };
        assert_eq!((yours.attempts, &yours.payload), (3, &new.payload));
        self.settle_version(owner, yours.version, found.timer, 3, again(new.id, 7, 3)).await;
        // Another rule drops it, and tells.
        let rule = NewTimer { series: Some(daily(10)), ..both };
        assert_eq!(self.save([rule.clone()]).await, [Saved::Replaced { id: rule.id, dropped: found.timer }]);
    }

    async fn overs(&self) {
        let owner = self.join().await;
        let over =
            |series| NewTimer { series: Some(series), replaces: true, is_over: true, ..keyed(9, 9, "s") };
        assert_eq!(self.save([over(daily(9))]).await, [Saved::Over { dropped: None }]);
        let new = NewTimer { series: Some(daily(9)), replaces: true, ..keyed(1, 1, "s") };
        self.save_all([new.clone()]).await;
        let payload = NewTimer { payload: new.payload.clone(), ..over(daily(9)) };
        assert_eq!(self.save([payload]).await, [Saved::Kept(new.id)]);
        assert_eq!(self.save([over(daily(9))]).await, [Saved::Updated(new.id)]);
        let dropped = Some(new.id.into());
        assert_eq!(self.save([over(daily(10))]).await, [Saved::Over { dropped }]);
        assert_eq!(self.count().await, Counts::default());
        // Of a run that has begun it is the last.
        self.save_all([new.clone()]).await;
        self.begin(owner, new.clone()).await;
        assert_eq!(self.save([over(daily(10))]).await, [Saved::Updated(new.id)]);
        self.settle_version(owner, 1, new.id.into(), 1, Change::Delete).await;
        self.save_all([keyed(1, 2, "s")]).await;
        self.begin(owner, keyed(1, 2, "s")).await;
        assert_eq!(self.save([over(daily(9))]).await, [Saved::Over { dropped: None }], "another's key");
    }

    async fn followers(&self) {
        let owner = self.join().await;
        let begun = keyed(1, 1, "k");
        self.save_all([begun.clone()]).await;
        self.begin(owner, begun.clone()).await;
        let next = NewTimer { replaces: true, payload: b"next".to_vec(), ..keyed(5, 2, "k") };
        assert_eq!(self.save([next.clone()]).await, [Saved::Follows { id: next.id, begun: begun.id }]);
        assert_eq!(self.get("k").await.expect("it is stored").timer, next.id.into());
        let told = self.settle(owner, begun.id.into(), 1, again(begun.id, 7, 1)).await;
        let Settled::Changed(now) = told else { panic!("{told:?}") };
        assert!(now.ending && now.key.is_none(), "{now:?}");
        assert_eq!(self.settle_version(owner, 1, begun.id.into(), 1, Change::Delete).await, Settled::Done);
        assert_eq!(self.cancel("k").await, Removal::Removed(next.id.into()));
        assert_eq!(self.count().await, Counts::default());
    }

    async fn planned_anew(&self) {
        let owner = self.join().await;
        let series = daily(9).planned_after(at(0));
        let new = NewTimer { series: Some(series.clone()), replaces: true, ..keyed(9_000, 1, "s") };
        self.save_all([new.clone()]).await;
        let put = Change::Put(next(1, 20, &daily(9).planned_after(at(5))));
        let told = self.settle_version(owner, 1, new.id.into(), 0, put.clone()).await;
        assert!(matches!(told, Settled::Changed(_)), "{told:?}");
        assert_eq!(self.settle(owner, new.id.into(), 0, put.clone()).await, Settled::Done);
        assert_eq!(self.settle(owner, new.id.into(), 0, put).await, Settled::Gone);
        let id = TimerId::new(at(20), 1);
        assert_eq!(self.get("s").await.expect("it is stored").timer, id.into());
        self.begin_at(owner, id.into()).await;
        let back = Change::Put(next(1, 30, &daily(9)));
        assert_eq!(self.settle(owner, id.into(), 0, back.clone()).await, Settled::Gone, "it has begun");
        self.settle(owner, id.into(), 1, again(id, 20, 1)).await;
        assert_eq!(self.settle(owner, id.into(), 0, back).await, Settled::Gone, "it was tried");
    }

    async fn standings(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), ..keyed(1, 1, "s") };
        self.save_all([new.clone()]).await;
        self.begin(owner, new.clone()).await;
        let mut stands = daily(9);
        stands.catching_up = Some((5, 2));
        let put = Put { series: Some(stands.clone()), ..put(new.id, 3, 1) };
        assert_eq!(self.settle(owner, new.id.into(), 1, Change::Put(put)).await, Settled::Done);
        let Begun::Yours(yours) = self.begin_at(owner, Near::new(new.id, at(3))).await else {
            panic!("it stands")
        };
        assert_eq!(yours.series, Some(stands));
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
        let bury = Change::Bury { reason: "enough".into(), next: None };
        assert_eq!(self.settle(owner, new.id.into(), 13, bury).await, Settled::Done);
        assert!(self.load(owner, id::Place::FIRST, 10, 9).await.timers.is_empty());
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
        let bury = Change::Bury { reason: "again".into(), next: None };
        self.settle(owner, again, 1, bury).await;
        assert_eq!(self.unbury(new.id, None).await, Taken::Deleted);
        assert_eq!(self.unbury(new.id, None).await, Taken::NotFound);
        assert_eq!(self.count().await, Counts::default());
    }
}
