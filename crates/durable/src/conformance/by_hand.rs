//! Each promise of a store, by a few calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Place;
use crate::Missed;
use crate::id::{self, TimerId};
use crate::store::{
    Ask, Begun, Counts, End, Ended, Kinds, Loaded, Move, Near, NewTimer, Next, Owner, Page, Removal, Saved,
    Series, Settled, State, Store, Stored, Taken, ToBegin, Which,
};

/// The tests that [`conformance!`](crate::conformance!) makes.
pub const TESTS: [&str; 17] = [
    "random_calls_are_answered_as_by_a_plain_model",
    "what_is_saved_is_there_after_reopening",
    "a_taken_key_is_told_and_not_overwritten",
    "a_key_is_free_again_after_its_timer",
    "a_load_goes_on_from_its_end_and_looks_ahead",
    "kinds_without_a_handler_are_left_alone",
    "a_cancel_wins_until_begin_and_never_after",
    "a_moved_timer_keeps_its_name_and_begins_at_its_new_place_only",
    "attempts_count_over_owners",
    "results_of_an_owner_that_was_followed_are_refused",
    "what_an_owner_leaves_is_stored_again",
    "nothing_follows_what_was_cancelled_while_it_ran",
    "a_series_goes_on_in_the_transaction_that_ends_a_run",
    "a_series_whose_rule_was_changed_meanwhile_is_planned_anew",
    "a_series_that_is_attempted_again_keeps_where_it_stood",
    "what_a_dead_owner_had_begun_is_cancelled_moved_and_replaced",
    "what_is_buried_is_listed_revived_and_deleted",
];

pub(super) async fn run<P: Place>(name: &str, mut place: P) {
    let hand = Hand { store: place.open().await };
    match name {
        "what_is_saved_is_there_after_reopening" => reopening(hand, place).await,
        "a_taken_key_is_told_and_not_overwritten" => hand.taken_keys().await,
        "a_key_is_free_again_after_its_timer" => hand.free_keys().await,
        "a_load_goes_on_from_its_end_and_looks_ahead" => hand.loads().await,
        "kinds_without_a_handler_are_left_alone" => hand.kinds().await,
        "a_cancel_wins_until_begin_and_never_after" => hand.cancels().await,
        "a_moved_timer_keeps_its_name_and_begins_at_its_new_place_only" => hand.moves().await,
        "attempts_count_over_owners" => hand.attempts().await,
        "results_of_an_owner_that_was_followed_are_refused" => hand.fences().await,
        "what_an_owner_leaves_is_stored_again" => hand.leaves().await,
        "nothing_follows_what_was_cancelled_while_it_ran" => hand.endings().await,
        "a_series_goes_on_in_the_transaction_that_ends_a_run" => hand.series().await,
        "a_series_whose_rule_was_changed_meanwhile_is_planned_anew" => hand.replanned().await,
        "a_series_that_is_attempted_again_keeps_where_it_stood" => hand.standings().await,
        "what_a_dead_owner_had_begun_is_cancelled_moved_and_replaced" => hand.dead_attempts().await,
        "what_is_buried_is_listed_revived_and_deleted" => hand.burials().await,
        _ => panic!("there is no test {name}"),
    }
}

fn at(millis: i64) -> Timestamp {
    id::timestamp(millis)
}

fn timer(due: i64, unique: u64) -> NewTimer {
    NewTimer {
        id: TimerId::new(at(due), unique),
        kind: "kind".into(),
        payload: unique.to_string().into_bytes(),
        key: None,
        series: None,
        replaces: false,
    }
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

async fn reopening<P: Place>(hand: Hand<P::Store>, mut place: P) {
    let owner = hand.join().await;
    assert_eq!(hand.save([timer(5, 1), keyed(-5, 2, "k"), timer(7, 3)]).await, [Saved::Stored; 3]);
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
        self.store.join(Duration::from_secs(30)).await.expect("join")
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

    async fn settle(&self, owner: Owner, timer: Near, attempt: u32, end: End) -> Settled {
        let series = match &end {
            End::Done { next } | End::Bury { next, .. } => next.as_ref().map(|next| next.series.clone()),
            End::Again { .. } | End::Cancelled => None,
        };
        self.settle_planned(owner, Ended { timer, attempt, series, end }).await
    }

    async fn settle_planned(&self, owner: Owner, ended: Ended) -> Settled {
        self.store.settle(owner, vec![ended]).await.expect("settle").remove(0)
    }

    async fn cancel(&self, which: impl Into<Which>) -> Removal {
        self.store.cancel(vec![which.into()]).await.expect("cancel").remove(0)
    }

    async fn reschedule(&self, which: impl Into<Which>, due: i64) -> Move {
        self.store.reschedule(which.into(), at(due)).await.expect("reschedule")
    }

    async fn unbury(&self, id: TimerId, due: Option<i64>) -> Taken {
        self.store.unbury(vec![id], due.map(at)).await.expect("unbury").remove(0)
    }

    async fn list(&self, page: &Page) -> Vec<Stored> {
        self.store.list(page.clone()).await.expect("list")
    }

    async fn count(&self) -> Counts {
        self.store.count().await.expect("count")
    }

    async fn taken_keys(&self) {
        let first = keyed(5, 1, "k");
        assert_eq!(
            self.save([first.clone(), keyed(6, 2, "k"), keyed(7, 3, "other")]).await,
            [Saved::Stored, Saved::KeyTaken(first.id), Saved::Stored]
        );
        let replaces = NewTimer { replaces: true, ..keyed(8, 4, "k") };
        assert_eq!(self.save([replaces.clone()]).await, [Saved::Replaced(first.id.into())]);
        assert_eq!(self.cancel(first.id).await, Removal::NotFound);
        let owner = self.join().await;
        assert!(matches!(self.begin(owner, replaces.clone()).await, Begun::Yours(_)));
        let late = NewTimer { replaces: true, ..keyed(9, 5, "k") };
        assert_eq!(self.save([late]).await, [Saved::KeyTaken(replaces.id)]);
        assert_eq!(self.count().await, Counts { stored: 1, begun: 1, buried: 0 });
    }

    async fn free_keys(&self) {
        let owner = self.join().await;
        self.save([keyed(1, 1, "k")]).await;
        self.cancel("k").await;
        assert_eq!(self.save([keyed(2, 2, "k")]).await, [Saved::Stored]);
        self.begin(owner, keyed(2, 2, "k")).await;
        let near = keyed(2, 2, "k").id.into();
        let done = self.settle(owner, near, 1, End::Done { next: None }).await;
        assert_eq!(done, Settled::Done(None));
        assert_eq!(self.save([keyed(3, 3, "k")]).await, [Saved::Stored]);
        self.begin(owner, keyed(3, 3, "k")).await;
        let bury = End::Bury { reason: "no".into(), next: None };
        self.settle(owner, keyed(3, 3, "k").id.into(), 1, bury).await;
        assert_eq!(self.save([keyed(4, 4, "k")]).await, [Saved::Stored]);
    }

    async fn loads(&self) {
        let owner = self.join().await;
        let timers =
            [(-4, 9), (3, 2), (3, 1), (5, 1), (6, 7), (20, 1)].map(|(due, unique)| timer(due, unique));
        self.save(timers.clone()).await;
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
        self.save(unknown.chain([timer(2, 99)])).await;
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
        self.save([armed.clone(), begun.clone()]).await;
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
        assert_eq!(
            self.settle(owner, begun.id.into(), 1, End::Done { next: None }).await,
            Settled::Done(None)
        );
        assert_eq!(self.cancel(begun.id).await, Removal::NotFound);
    }

    async fn moves(&self) {
        let owner = self.join().await;
        let new = keyed(5, 1, "k");
        self.save([new.clone()]).await;
        let (from, to) = (Near::from(new.id), Near::new(new.id, at(3)));
        assert_eq!(self.reschedule(new.id, 3).await, Move::Moved { from, to });
        assert_eq!(self.begin_at(owner, from).await, Begun::Gone);
        assert_eq!(self.reschedule("k", 4).await, Move::Moved { from: to, to: Near::new(new.id, at(4)) });
        let loaded = self.load(owner, id::Place::FIRST, 10, 9).await;
        assert_eq!(loaded.timers, [Near::new(new.id, at(4))]);
        assert!(matches!(self.begin_at(owner, loaded.timers[0]).await, Begun::Yours(_)));
        let again = End::Again { due: at(8), error: Some("no".into()), counts: true };
        let next = Near::new(new.id, at(8));
        assert_eq!(self.settle(owner, loaded.timers[0], 1, again).await, Settled::Done(Some(next)));
        let back = self.reschedule(new.id, 5).await;
        assert_eq!(back, Move::Moved { from: next, to: from });
        assert_eq!(self.cancel("k").await, Removal::Removed(from));
        assert_eq!(self.reschedule(new.id, 5).await, Move::NotFound);
    }

    async fn attempts(&self) {
        let new = timer(1, 1);
        self.save([new.clone()]).await;
        for attempt in 1..4 {
            let owner = self.join().await;
            let loaded = self.load(owner, id::Place::FIRST, 10, 9).await;
            assert_eq!(loaded.timers, [Near::from(new.id)], "begun by an earlier owner");
            let Begun::Yours(yours) = self.begin(owner, new.clone()).await else { panic!("it stands") };
            assert_eq!(yours.attempts, attempt);
            assert!(self.load(owner, id::Place::FIRST, 10, 9).await.timers.is_empty(), "begun by this one");
        }
    }

    async fn fences(&self) {
        let old = self.join().await;
        let (one, two) = (timer(1, 1), timer(2, 2));
        self.save([one.clone(), two.clone()]).await;
        self.begin(old, one.clone()).await;
        self.begin(old, two.clone()).await;
        let new = self.join().await;
        let done = End::Done { next: None };
        assert_eq!(self.settle(old, one.id.into(), 1, done.clone()).await, Settled::Lost, "followed");
        self.begin(new, one.clone()).await;
        assert_eq!(self.settle(old, one.id.into(), 1, done.clone()).await, Settled::Lost, "begun anew");
        assert_eq!(
            self.settle(old, one.id.into(), 2, done.clone()).await,
            Settled::Lost,
            "another's attempt"
        );
        assert_eq!(
            self.settle(new, one.id.into(), 1, done.clone()).await,
            Settled::Lost,
            "an attempt before"
        );
        assert_eq!(self.settle(new, two.id.into(), 1, done.clone()).await, Settled::Lost, "not begun");
        assert!(self.load(old, id::Place::FIRST, 10, 9).await.lost);
        assert_eq!(self.begin(old, two).await, Begun::Lost);
        assert_eq!(self.store.leave(old).await.expect("leave"), 0);
        assert_eq!(self.settle(new, one.id.into(), 2, done).await, Settled::Done(None));
    }

    async fn leaves(&self) {
        let owner = self.join().await;
        let (one, two) = (timer(1, 1), timer(2, 2));
        self.save([one.clone(), two]).await;
        self.begin(owner, one.clone()).await;
        assert_eq!(self.store.leave(owner).await.expect("leave"), 1);
        assert_eq!(self.count().await, Counts { stored: 2, begun: 0, buried: 0 });
        assert_eq!(self.settle(owner, one.id.into(), 1, End::Done { next: None }).await, Settled::Lost);
        let next = self.join().await;
        let Begun::Yours(yours) = self.begin(next, one).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 2);
    }

    async fn endings(&self) {
        let owner = self.join().await;
        let series = NewTimer { series: Some(daily(9)), ..keyed(1, 1, "series") };
        let (retried, dies) = (timer(1, 2), timer(1, 3));
        self.save([series.clone(), retried.clone(), dies.clone()]).await;
        for timer in [&series, &retried, &dies] {
            self.begin(owner, timer.clone()).await;
            assert_eq!(self.cancel(timer.id).await, Removal::Running(timer.id, 1));
        }
        let next = Some(Next { due: at(9), series: daily(9) });
        assert_eq!(self.settle(owner, series.id.into(), 1, End::Done { next }).await, Settled::Done(None));
        let again = End::Again { due: at(9), error: None, counts: true };
        assert_eq!(self.settle(owner, retried.id.into(), 1, again).await, Settled::Done(None));
        let other = self.join().await;
        let Begun::Yours(yours) = self.begin(other, dies).await else { panic!("it is attempted again") };
        assert!(yours.ending);
        assert_eq!(self.count().await, Counts { stored: 0, begun: 1, buried: 0 });
    }

    async fn series(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), replaces: true, ..keyed(1, 1, "s") };
        self.save([new.clone()]).await;
        assert_eq!(
            self.save([NewTimer { id: TimerId::new(at(3), 3), ..new.clone() }]).await,
            [Saved::Kept(new.id)]
        );
        self.begin(owner, new.clone()).await;
        let mut then = daily(9);
        then.catching_up = Some((5, 2));
        let end = End::Done { next: Some(Next { due: at(100), series: then.clone() }) };
        let next = TimerId::new(at(100), 1);
        assert_eq!(self.settle(owner, new.id.into(), 1, end.clone()).await, Settled::Done(Some(next.into())));
        assert_eq!(self.settle(owner, new.id.into(), 1, end).await, Settled::Lost, "once");
        let listed = self.list(&Page::default()).await;
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].timer, listed[0].attempts), (next.into(), 0));
        assert_eq!((&listed[0].series, listed[0].key.as_deref()), (&Some(then), Some("s")));
        let Begun::Yours(_) = self.begin_at(owner, next.into()).await else { panic!("it stands") };
        let next = Some(Next { due: at(200), series: daily(9) });
        let bury = End::Bury { reason: "no".into(), next };
        let after = TimerId::new(at(200), 1);
        assert_eq!(
            self.settle(owner, TimerId::new(at(100), 1).into(), 1, bury).await,
            Settled::Done(Some(after.into())),
            "a series goes on over what is buried"
        );
        assert_eq!(self.cancel("s").await, Removal::Removed(after.into()));
        assert_eq!(self.count().await, Counts { stored: 0, begun: 0, buried: 1 });
    }

    async fn replanned(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), replaces: true, ..keyed(1, 1, "s") };
        self.save([new.clone()]).await;
        self.begin(owner, new.clone()).await;
        let changed = NewTimer { series: Some(daily(10)), id: TimerId::new(at(50), 5), ..new.clone() };
        assert_eq!(self.save([changed]).await, [Saved::Updated(new.id)]);
        let end = |series| End::Done { next: Some(Next { due: at(100), series }) };
        let answer = self.settle(owner, new.id.into(), 1, end(daily(9))).await;
        assert_eq!(answer, Settled::Replanned(daily(10)));
        for end in [End::Done { next: None }, End::Bury { reason: "over".into(), next: None }] {
            let ended = Ended { timer: new.id.into(), attempt: 1, series: Some(daily(9)), end };
            let answer = self.settle_planned(owner, ended).await;
            assert_eq!(answer, Settled::Replanned(daily(10)), "also where the old rule is over");
        }
        assert_eq!(self.count().await, Counts { stored: 0, begun: 1, buried: 0 });
        let next = TimerId::new(at(100), 1);
        let answer = self.settle(owner, new.id.into(), 1, end(daily(10))).await;
        assert_eq!(answer, Settled::Done(Some(next.into())));
    }

    async fn standings(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), ..keyed(1, 1, "s") };
        self.save([new.clone()]).await;
        self.begin(owner, new.clone()).await;
        let mut stands = daily(9);
        stands.catching_up = Some((5, 2));
        let again = |due| End::Again { due: at(due), error: None, counts: true };
        let ended = Ended { timer: new.id.into(), attempt: 1, series: Some(stands.clone()), end: again(3) };
        let near = Near::new(new.id, at(3));
        assert_eq!(self.settle_planned(owner, ended).await, Settled::Done(Some(near)));
        let Begun::Yours(yours) = self.begin_at(owner, near).await else { panic!("it stands") };
        assert_eq!(yours.series.as_ref(), Some(&stands));
        let changed = NewTimer { series: Some(daily(10)), replaces: true, ..new.clone() };
        assert_eq!(self.save([changed]).await, [Saved::Updated(new.id)]);
        let ended = Ended { timer: near, attempt: 2, series: Some(stands), end: again(4) };
        let near = Near::new(new.id, at(4));
        assert_eq!(self.settle_planned(owner, ended).await, Settled::Done(Some(near)));
        let Begun::Yours(yours) = self.begin_at(owner, near).await else { panic!("it stands") };
        assert_eq!(yours.series, Some(daily(10)), "that of another rule is not stored over the new one");
    }

    async fn dead_attempts(&self) {
        let dead = self.join().await;
        let timers = [keyed(1, 1, "cancelled"), keyed(1, 2, "moved"), keyed(1, 3, "replaced")];
        self.save(timers.clone()).await;
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
        assert_eq!(self.save([replaces]).await, [Saved::Replaced(replaced)]);
        assert_eq!(self.count().await, Counts { stored: 1, begun: 1, buried: 0 });
    }

    async fn burials(&self) {
        let owner = self.join().await;
        let new = keyed(1, 1, "k");
        self.save([new.clone()]).await;
        for attempt in 1..=12 {
            self.begin(owner, new.clone()).await;
            let again = End::Again { due: at(1), error: Some(format!("error {attempt}")), counts: true };
            self.settle(owner, new.id.into(), attempt, again).await;
        }
        self.begin(owner, new.clone()).await;
        let bury = End::Bury { reason: "enough".into(), next: None };
        assert_eq!(self.settle(owner, new.id.into(), 13, bury).await, Settled::Done(None));
        assert!(self.load(owner, id::Place::FIRST, 10, 9).await.timers.is_empty());
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
        let bury = End::Bury { reason: "again".into(), next: None };
        self.settle(owner, again, 1, bury).await;
        assert_eq!(self.unbury(new.id, None).await, Taken::Deleted);
        assert_eq!(self.unbury(new.id, None).await, Taken::NotFound);
        assert_eq!(self.count().await, Counts::default());
    }
}
