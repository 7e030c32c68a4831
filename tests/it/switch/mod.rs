//! The one-line switch: the same code on `tokio::time` and on `timingwheel::time`.
//!
//! `same` is compiled twice, in `on_tokio` and in `on_wheel`, which differ in one `use`. It runs on paused clocks and
//! notes events; both have to note the same. `differences` tests behaviour that differs.

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
    clock:
        an_idle_runtime_jumps_from_timer_to_timer
        an_advance_fires_what_it_passes_in_order
        a_timer_that_was_polled_just_before_an_advance_is_passed_by_it
        a_blocking_task_holds_the_clock
        with_no_timer_left_the_clock_stands
        a_resumed_clock_goes_on_and_can_be_paused_again
        instants_and_durations_are_the_same
    ;
    interval:
        the_first_tick_comes_at_once_and_the_others_a_period_apart
        the_first_tick_comes_at_the_start_that_was_asked_for
        a_start_in_the_past_counts_as_missed_ticks
        a_period_is_at_most_thirty_years_long
        work_that_is_shorter_than_the_period_does_not_shift_the_schedule
        a_tick_that_is_given_up_is_not_lost
        polled_by_hand_it_ticks_when_the_clock_has_reached_the_tick
        each_reset_moves_the_next_tick_and_the_schedule_after_it
        a_reset_after_the_longest_time_is_thirty_years
        a_reset_reaches_a_task_that_waits_already
        a_reset_counts_nothing_as_missed
        intervals_in_a_select_take_turns
        a_tick_can_be_timed
    ;
    missed:
        missed_ticks_come_in_a_burst
        missed_ticks_delay_the_schedule
        missed_ticks_are_skipped
        missed_ticks_come_in_a_burst_unless_set_otherwise
        the_behavior_can_be_changed_while_the_interval_runs
        ticks_shorter_than_what_counts_as_missed_still_add_up
    ;
    panics:
        outside_a_runtime_each_function_panics_or_its_future_does
        in_a_runtime_without_timers_none_can_be_awaited
        a_period_of_zero_panics_in_its_callers_line
        a_clock_is_paused_once_and_resumed_once
        the_end_of_the_runtime_wakes_sleeps_and_panics_in_their_next_poll
        the_end_of_the_runtime_panics_in_the_next_tick
    ;
    programs:
        a_server_echoes_beats_and_notices_a_dead_client
        a_call_is_tried_again_after_longer_and_longer_pauses_until_a_deadline
        a_cache_forgets_entries_that_are_not_used
        a_limiter_lets_so_many_start_in_a_second
        changes_are_put_together_until_there_is_a_pause
        workers_that_do_not_leave_in_time_are_stopped
        messages_leave_in_batches_that_are_full_or_old
    ;
    reset:
        a_sleep_moved_while_it_waits_ends_at_its_new_deadline
        a_sleep_moved_before_its_first_poll_ends_at_its_new_deadline
        a_sleep_moved_after_it_has_ended_waits_again
        a_sleep_moved_after_its_time_and_before_it_was_polled_waits_again
        a_sleep_moved_into_the_past_wakes_its_task_at_once
        the_task_that_waits_is_woken_at_the_new_deadline_without_polling_again
        a_deadline_moved_for_each_message_of_a_connection_ends_it_after_the_last
        many_sleeps_moved_here_and_there_end_in_the_order_of_their_deadlines
    ;
    sleep:
        a_sleep_ends_at_its_deadline_however_long_it_is
        a_sleep_is_at_most_thirty_years_long
        a_deadline_may_be_further_than_that
        the_deadline_is_fixed_when_a_sleep_is_made
        a_deadline_in_the_past_is_ready_at_the_first_poll
        polled_by_hand_it_is_pending_until_the_clock_has_reached_its_deadline
        it_has_elapsed_when_it_was_polled_and_its_time_has_come
        polled_after_it_was_ready_it_is_ready_again
        only_the_task_that_polled_last_is_woken
        as_many_are_ready_in_a_row_as_the_budget_allows
        a_pending_one_spends_no_budget
        a_task_that_finds_all_its_sleeps_elapsed_lets_others_run
        tasks_wake_in_the_order_of_their_deadlines
        tasks_with_the_same_deadline_wake_in_the_order_in_which_they_went_to_sleep
        a_sleep_that_is_dropped_does_not_hold_the_clock
        it_moves_between_tasks
    ;
    timeout:
        a_future_that_is_ready_is_in_time_whatever_the_time
        a_future_that_is_late_is_given_up_at_the_deadline
        a_future_that_is_ready_at_the_deadline_is_in_time
        the_longest_timeout_does_not_elapse_where_the_longest_sleep_does
        the_error_reads_the_same_and_becomes_the_same_io_error
        the_error_goes_through_question_marks
        the_future_can_be_looked_at_changed_and_taken_out
        what_can_be_turned_into_a_future_can_be_timed
        polled_after_it_has_elapsed_it_has_elapsed_again
        a_future_that_spends_the_whole_budget_does_not_escape_its_deadline
        an_elapsed_timeout_waits_when_the_budget_was_spent_before_it
        as_many_elapse_in_a_row_as_the_budget_allows
        a_future_that_is_given_up_is_dropped_with_the_timeout
        of_nested_timeouts_the_tightest_counts
        requests_with_deadlines_are_answered_or_given_up
    ;
}
