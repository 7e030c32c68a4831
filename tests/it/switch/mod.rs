//! The one-line switch: the same code on `tokio::time` and on `timingwheel::time`.
//!
//! `same` is compiled twice, in `on_tokio` and in `on_wheel`, which differ in one `use`. It runs on paused clocks and
//! notes events; both have to note the same. `scripts` draws the operations of tasks at random. `differences` tests behaviour that differs.

#![allow(clippy::duplicate_mod, reason = "that the same code runs on both is the point")]

mod differences;
mod on_tokio;
mod on_wheel;
mod scripts;
mod trace;

/// A test for each function below `same`; one that is left out would draw a warning as never used.
macro_rules! same {
    ($($module:ident: $($test:ident)+;)+) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                use super::{on_tokio, on_wheel};
                super::trace::assert_same(on_tokio::same::$module::$test, on_wheel::same::$module::$test);
            })+
        })+
    };
}

same! {
    by_hand:
        the_longest_sleep_and_period_are_thirty_years_and_the_longest_timeout_does_not_elapse
        it_has_elapsed_when_it_was_polled_and_its_time_has_come
        as_many_are_ready_in_a_row_as_the_budget_allows
        a_pending_one_spends_no_budget
        the_error_reads_the_same_and_becomes_the_same_io_error
        polled_after_it_has_elapsed_it_has_elapsed_again
        as_many_elapse_in_a_row_as_the_budget_allows
        a_reset_reaches_a_task_that_waits_already
        an_advance_fires_what_it_passes_in_order
        a_resumed_clock_goes_on_and_can_be_paused_again
    ;
    panics:
        outside_a_runtime_each_function_panics_or_its_future_does
        in_a_runtime_without_timers_none_can_be_awaited
        a_period_of_zero_panics_in_its_callers_line
        a_clock_is_paused_once_and_resumed_once
        the_end_of_the_runtime_wakes_sleeps_and_panics_in_their_next_poll
        the_end_of_the_runtime_panics_in_the_next_tick
    ;
}
