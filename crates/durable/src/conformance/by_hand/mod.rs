//! Each promise of a store, by a few calls.

mod owners;
mod series;
mod timers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Place;
use crate::Missed;
use crate::id::{self, TimerId};
use crate::store::{
    Ask, Begun, Counts, End, Ended, Kinds, Loaded, Move, Near, NewTimer, Owner, Page, Removal, Saved, Series,
    Settled, Store, Stored, Taken, ToBegin, Which,
};

/// The tests that [`conformance!`](crate::conformance!) makes.
pub const TESTS: [&str; 18] = [
    "random_calls_are_answered_as_by_a_plain_model",
    "what_is_saved_is_there_after_reopening",
    "a_taken_key_is_told_and_not_overwritten",
    "a_key_is_free_again_after_its_timer",
    "a_load_goes_on_from_its_end_and_looks_ahead",
    "kinds_without_a_handler_are_left_alone",
    "a_cancel_wins_until_begin_and_never_after",
    "a_moved_timer_keeps_its_name_and_begins_at_its_new_place_only",
    "attempts_count_over_owners",
    "a_begin_that_is_made_again_is_the_same_attempt",
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
        "a_begin_that_is_made_again_is_the_same_attempt" => hand.begins_again().await,
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
}
