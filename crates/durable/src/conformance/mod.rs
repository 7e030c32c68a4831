//! Tests that a store keeps what [`Store`] promises. Feature `conformance`.
//!
//! [`conformance!`](crate::conformance!) makes the tests. You give it a function that makes an empty home for timers,
//! and returns how to open a store there, again and again. The timers in a home must outlive each store that was
//! opened there, but not the home.
//!
//! ```
//! use timingwheel_durable::MemoryStore;
//!
//! timingwheel_durable::conformance!(|| {
//!     let store = MemoryStore::new();
//!     move || {
//!         let opened = store.clone();
//!         async move { opened }
//!     }
//! });
//! # fn main() {}
//! ```
//!
//! Most tests make a few chosen calls. One makes random calls, opens the store again in between, and compares each answer and all
//! stored timers with a plain model. If it fails, it prints a number: set that as `CONFORMANCE_SEED` to make the same calls
//! again. `CONFORMANCE_RUNS` is how many times it starts over.

mod by_hand;
mod model;
mod random;

use std::future::Future;

pub use by_hand::TESTS;
pub use random::random_calls_are_answered_as_by_a_plain_model;

use crate::store::Store;

/// A home of timers. A test opens it again and again, each time after it has dropped the former store.
pub trait Home {
    /// The store.
    type Store: Store;

    /// Opens it.
    fn open(&mut self) -> impl Future<Output = Self::Store>;
}

impl<F, O, S> Home for F
where
    F: FnMut() -> O,
    O: Future<Output = S>,
    S: Store,
{
    type Store = S;

    fn open(&mut self) -> impl Future<Output = S> {
        self()
    }
}

/// Runs one test, on a runtime of its own.
///
/// # Panics
/// If the store does not keep its promises, or if no runtime can be made.
pub fn run<P: Home>(name: &str, make: impl Fn() -> P) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if name == TESTS[0] {
            random_calls_are_answered_as_by_a_plain_model(make).await;
        } else {
            by_hand::run(name, make()).await;
        }
    });
}

/// Tests that a store keeps its promises: see [the module](mod@crate::conformance).
///
/// Takes a function without arguments. It returns another function, which opens the store: its future is the store.
#[macro_export]
macro_rules! conformance {
    ($make:expr) => {
        $crate::conformance! {
            @each $make;
            random_calls_are_answered_as_by_a_plain_model
            what_is_saved_is_there_after_reopening
            a_taken_key_is_told_and_not_overwritten
            a_key_is_free_again_after_its_timer
            a_load_goes_on_from_its_end_and_looks_ahead
            kinds_without_a_handler_are_left_alone
            a_cancel_wins_until_begin_and_never_after
            a_moved_timer_keeps_its_name_and_begins_at_its_new_place_only
            attempts_count_over_owners
            a_begin_that_is_made_again_is_the_same_attempt
            results_of_a_lost_owner_are_refused
            what_an_owner_leaves_is_stored_again
            nothing_follows_what_was_cancelled_while_it_ran
            a_series_goes_on_in_the_transaction_that_ends_a_run
            an_end_that_was_decided_before_a_change_is_refused_with_the_row
            a_pending_run_stays_if_its_series_is_saved_with_another_payload_or_policy
            a_rule_that_is_over_stores_nothing_and_keeps_its_pending_run
            a_key_of_a_timer_that_has_begun_goes_to_the_one_that_replaces_it
            what_was_cancelled_and_given_back_is_removed_by_the_next_cancel_or_begin
            a_pending_run_is_put_elsewhere_unless_it_has_changed
            a_series_that_is_attempted_again_keeps_where_it_stood
            what_a_dead_owner_had_begun_is_cancelled_moved_and_replaced
            what_is_buried_is_listed_retried_and_deleted
        }
    };
    (@each $make:expr; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::conformance::run(stringify!($name), $make);
            }
        )*
    };
}
