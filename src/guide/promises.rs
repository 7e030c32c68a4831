//! What this crate promises, and what holds it to that.
//!
//! Each promise names the tests that fail when it is broken, as was seen: `tests/mutants.md` tells by which changes of
//! the code, and which small ones no test notices. `tests/promises.rs` checks that the tests exist. Those in
//! `src/loom_models` are tried in every order of threads (the larger ones with up to three preemptions; `random.rs` at
//! random); a fuzzer feeds the targets in `fuzz` as long as one likes; all others run with `cargo test`.
//!
//! # Never early
//!
//! Nothing fires before its deadline, which is kept to the nanosecond, by the clock of the wheel's runtime: not a
//! sleep, not a timeout, no tick of an interval, whatever the tick of the wheel, the order in which timers were made
//! and moved, and the load.
//!
//! - `tests/hierarchy_model.rs`: `a_wheel_does_what_an_ordered_map_does_to_within_a_tick`,
//!   `entries_moved_to_and_fro_over_a_few_ticks_do_as_in_an_ordered_map`,
//!   `a_wheel_in_the_last_ticks_of_time_does_as_an_ordered_map`, `whatever_bytes_say_is_done_as_in_an_ordered_map`
//! - `tests/model/uptime.rs`: `after_three_years_in_odd_steps_no_timer_was_lost_early_or_late`
//! - `tests/hierarchy_borders.rs`: `a_deadline_beside_a_border_of_any_level_is_met_exactly`,
//!   `an_entry_moved_to_the_past_and_on_within_the_tick_of_the_clock_is_not_early`
//! - `tests/deadlines_model.rs`: `whatever_is_done_to_timers_they_elapse_as_their_deadlines_say`
//! - `tests/ticks.rs`: `on_the_real_clock_a_sleep_is_never_early`
//! - `tests/executors/threads.rs`: `after_a_storm_on_many_threads_the_counts_add_up_and_nothing_was_early`
//! - `src/engine/driver/tests.rs`: `there_is_one_turn_for_a_tick_that_is_never_early_and_no_later_than_the_end_of_the_tick`
//! - `src/timers/delay_queue/model.rs`: `a_schedule_is_an_ordered_map`
//! - `tests/delay_queue/items.rs`: `on_a_clock_that_runs_no_item_is_early_or_lost`
//! - `fuzz/targets/core.rs`, `fuzz/targets/api.rs`
//!
//! # Late by less than a tick
//!
//! A timer fires at the end of the [tick](crate::Builder::tick) that its deadline lies in, or before; later only by
//! what tokio's own timers would be late by on the same runtime, as the same park turns both: on a busy one, the time
//! until a worker has polled 61 tasks, and until the task is polled. A timer that is alone in its tick waits for nobody.
//! Where one worker blocks and another is idle, the watchdog sees to it that the wheel is turned within some 10 ms.
//! One whose deadline has passed when it is made is ready at its first poll. On a [paused clock](crate#in-tests) an
//! idle jump may add what tokio's own millisecond does, less than two.
//!
//! - `tests/hierarchy_model.rs`: `a_wheel_does_what_an_ordered_map_does_to_within_a_tick`,
//!   `a_lone_entry_is_handed_out_exactly_at_its_deadline`
//! - `tests/hierarchy_borders.rs`: `two_deadlines_are_at_most_a_tick_late_at_any_stride_of_the_clock`
//! - `tests/deadlines_model.rs`: `whatever_is_done_to_timers_they_elapse_as_their_deadlines_say`
//! - `tests/sleep.rs`: `a_sleep_is_ready_exactly_at_its_deadline`,
//!   `ten_thousand_sleeps_are_each_ready_at_their_own_deadline`,
//!   `zero_and_past_deadlines_are_ready_at_the_first_poll_and_never_in_the_wheel`
//! - `tests/limits.rs`: `a_lone_timer_does_not_wait_for_the_end_of_a_long_tick`
//! - `tests/busy_runtime.rs`: `beside_tasks_that_compute_a_timer_is_as_punctual_as_one_of_tokios`
//! - `tests/executors/threads.rs`: `a_worker_that_is_blocked_does_not_hold_up_the_timers_of_others`
//! - `tests/stalls.rs`: `a_worker_that_goes_on_stalling_does_not_keep_the_timers_of_a_runtime_that_has_another`,
//!   `a_worker_that_blocks_as_its_timer_has_fired_does_not_keep_the_timers_of_idle_ones`
//! - `src/engine/watchdog/tests.rs`: `a_wheel_that_nobody_turns_is_woken_until_somebody_does`
//! - `tests/runtimes.rs`: `whatever_drivers_a_runtime_has_timers_fire_and_nothing_is_reported`
//! - `src/engine/driver/tests.rs`: `there_is_one_turn_for_a_tick_that_is_never_early_and_no_later_than_the_end_of_the_tick`
//! - `tests/delay_queue/items.rs`: `items_of_one_tick_take_one_wake_up_and_are_late_by_less_than_a_tick`
//! - `fuzz/targets/core.rs`, `fuzz/targets/api.rs`
//!
//! # Late by less than a tolerance
//!
//! A timer with a [tolerance](crate::Tolerance) is late by less than that, or than a tick if that is longer. With one
//! of a 15th of its delay or more it stays in one place of the wheel until it fires, unless it is moved.
//!
//! - `tests/hierarchy_model.rs`: `a_wheel_does_what_an_ordered_map_does_to_within_a_tick`,
//!   `entries_moved_to_and_fro_over_a_few_ticks_do_as_in_an_ordered_map`
//! - `tests/hierarchy_tolerance.rs`: `an_entry_that_may_be_late_by_a_15th_of_its_delay_waits_in_one_place`,
//!   `exact_entries_beside_tolerant_ones_keep_their_nanosecond`
//! - `tests/tolerance.rs`: `a_tolerant_sleep_is_never_early_and_late_by_less_than_it_may_be`,
//!   `tolerant_sleeps_with_near_deadlines_wake_at_the_same_instant_and_never_move`
//! - `tests/idle_guard/tolerance.rs`: `a_tolerant_limit_is_never_early_and_late_by_less_than_it_may_be`
//!
//! # Exactly once, and none lost
//!
//! What was armed fires once, or is dropped before, or is told of the wheel's end. No order in which threads arm,
//! move and drop timers while others turn the wheel, or arm the next turn, makes that come too late.
//!
//! - `tests/hierarchy_model.rs`: `a_wheel_does_what_an_ordered_map_does_to_within_a_tick`
//! - `tests/hierarchy_memory.rs`: `a_million_entries_in_one_bucket_go_out_in_batches_and_give_their_memory_back`
//! - `tests/deadlines_model.rs`: `whatever_is_done_to_timers_they_elapse_as_their_deadlines_say`
//! - `tests/executors/threads.rs`: `after_a_storm_on_many_threads_the_counts_add_up_and_nothing_was_early`
//! - `tests/faults/million.rs`: `a_million_timers_on_one_tick_all_fire`,
//!   `a_million_timers_that_are_dropped_on_the_tick_on_which_they_are_due_fire_or_are_cancelled`
//! - `tests/faults/clock.rs`: `after_each_jump_of_the_clock_what_it_passed_has_fired_and_nothing_else`
//! - `src/loom_models/random/owners.rs`: `timers_of_many_owners_fire_once_in_time_or_are_cancelled`
//! - `src/loom_models/random/mod.rs`: `tasks_that_sleep_are_woken`, `what_many_arm_is_not_overslept`
//! - `src/loom_models/firing.rs`: `a_timer_is_cancelled_or_fires_and_is_gone_when_cancel_returns`,
//!   `a_timer_is_cancelled_during_a_cascade_in_batches_and_the_others_fire`,
//!   `a_timer_that_is_moved_into_the_past_wakes_once`,
//!   `a_timer_that_is_discarded_elsewhere_as_it_fires_is_cancelled_or_fires`
//! - `src/engine/shard/model.rs`: `whoever_takes_over_from_whom_each_timer_fires_once_in_its_tick_or_is_dropped`
//! - `src/loom_models/spare_entry.rs`: `a_timer_that_is_dropped_as_it_fires_has_fired_by_then_or_does_not`,
//!   `a_timer_that_takes_over_as_the_driver_turns_fires_at_its_own_deadline`,
//!   `of_timers_dropped_at_once_one_is_left_and_the_next_of_its_task_takes_it_over`
//! - `src/loom_models/elsewhere.rs`: `a_timer_that_takes_the_place_of_one_dropped_elsewhere_fires_at_its_own_deadline`
//! - `src/loom_models/futures.rs`: `a_task_that_is_woken_finds_its_deadline_reached`,
//!   `a_task_that_takes_a_sleep_over_as_it_fires_finds_it_elapsed_or_is_woken`
//! - `src/loom_models/going_to_sleep.rs`: `a_timer_armed_as_the_driver_goes_to_sleep_sets_the_timers`,
//!   `a_timer_armed_as_the_driver_goes_to_sleep_wakes_it`,
//!   `of_two_timers_armed_as_the_driver_goes_to_sleep_the_earlier_counts`,
//!   `a_timer_armed_as_the_only_other_one_is_cancelled_is_not_overslept`,
//!   `a_park_that_turns_loses_no_time_set_meanwhile`,
//!   `of_two_that_turn_at_the_same_time_the_last_one_arms_for_the_earliest`,
//!   `a_task_that_turns_as_the_park_does_loses_no_time_set_meanwhile`,
//!   `a_timer_that_is_due_as_the_park_turns_fires_then_or_has_the_park_called_again`
//! - `src/timers/delay_queue/model.rs`: `a_schedule_is_an_ordered_map`
//! - `tests/delay_queue/waking.rs`: `a_task_that_waits_is_told_of_what_others_do`,
//!   `on_several_workers_every_change_is_seen`
//! - `tests/delay_queue/same.rs`: `whoever_was_told_that_the_queue_is_empty_is_woken_by_the_next_insertion`
//! - `fuzz/targets/core.rs`, `fuzz/targets/api.rs`
//!
//! # Moving counts
//!
//! A [reset](crate::Sleep::reset) to later, to earlier or to the past holds from then on, and the task that waits
//! need not poll again. An overdue timer that is moved on, to another instant that has passed, may stay in its tick.
//!
//! - `tests/reset.rs`: `a_sleep_moved_later_is_ready_then_and_not_before`, `a_sleep_moved_earlier_is_ready_then`,
//!   `a_sleep_moved_into_the_past_wakes_its_task_at_once`,
//!   `on_the_real_clock_no_move_to_earlier_is_lost_whatever_the_driver_is_doing`
//! - `tests/deadlines_model.rs`: `whatever_is_done_to_timers_they_elapse_as_their_deadlines_say`
//! - `src/loom_models/firing.rs`: `a_timer_that_is_moved_to_later_fires_at_its_old_deadline_or_at_the_new_one`,
//!   `a_timer_that_is_moved_to_earlier_as_the_driver_turns_fires_by_then`
//! - `src/loom_models/going_to_sleep.rs`: `a_timer_moved_to_earlier_as_the_driver_goes_to_sleep_is_not_overslept`
//!
//! # Any deadline, any uptime
//!
//! From the distant past to centuries ahead, on a tick of any length. Beyond the [583 years](crate::Sleep::deadline)
//! that a wheel counts a timer never fires; nothing overflows.
//!
//! - `tests/hierarchy_model.rs`: `a_wheel_in_the_last_ticks_of_time_does_as_an_ordered_map`
//! - `tests/model/uptime.rs`: `after_three_years_in_odd_steps_no_timer_was_lost_early_or_late`
//! - `tests/hierarchy_borders.rs`: `the_end_of_time_is_reached_with_the_fewest_slots_and_with_the_most`
//! - `tests/limits.rs`: `wheels_with_settings_at_their_limits_are_on_time`
//! - `tests/faults/settings.rs`: `with_all_settings_at_their_limits_timers_are_on_time_on_the_paused_clock`
//! - `tests/ticks.rs`: `a_century_at_a_tenth_of_a_millisecond_is_an_ordinary_deadline`,
//!   `a_deadline_beyond_what_the_wheel_can_count_is_never_reached`
//!
//! # A dropped timer is gone
//!
//! Its entry and its waker go with the future. They may stay for up to a second: of one dropped timer of each shard,
//! until the next exact one takes its place, as it may that of the others; and of up to 13 that were dropped on another
//! thread than the one that made them, or when 8,192 others had been made after them in their shard and 32,768 were
//! pending there, or had been a short while before. They count as gone, and wake nobody. With a bound, and where the
//! clock can be paused, all go at once. What is awaited may be dropped and awaited again where its docs say so under
//! cancel safety.
//!
//! - `tests/sleep.rs`: `it_is_registered_by_the_first_poll_and_gone_as_soon_as_it_is_dropped`,
//!   `it_can_be_awaited_by_reference_in_a_select_loop`
//! - `tests/timeout.rs`: `a_timeout_that_is_dropped_or_elapses_drops_the_future`,
//!   `a_future_that_panics_leaves_nothing_behind`
//! - `tests/faults/panics.rs`: `a_future_that_panics_under_a_timer_leaves_nothing_behind`,
//!   `a_stream_that_panics_under_a_timer_leaves_nothing_behind`
//! - `tests/faults/threads.rs`: `a_thread_that_dies_while_it_holds_timers_of_each_kind_leaves_none`,
//!   `a_task_that_is_aborted_or_dropped_with_its_set_while_it_holds_timers_of_each_kind_leaves_none`
//! - `tests/elsewhere/counts.rs`: `counts_are_exact_right_after_a_drop`,
//!   `a_timer_that_was_dropped_does_not_wake_its_task`
//! - `tests/elsewhere/wakers.rs`: `the_wheel_keeps_a_few_wakers_of_dropped_timers_and_no_more`
//! - `tests/elsewhere/crowd.rs`: `old_timers_dropped_among_very_many_are_gone_at_once_and_their_wakers_soon`
//! - `tests/elsewhere/spare_entry.rs`: `it_counts_as_cancelled_at_once_and_keeps_one_waker_for_the_next`,
//!   `it_does_not_wake_its_task`, `of_many_dropped_in_a_row_no_more_than_one_keeps_its_waker`,
//!   `with_a_bound_and_where_the_clock_can_be_paused_it_is_gone_at_once`
//! - `src/loom_models/spare_entry.rs`: `a_timer_dropped_as_the_driver_lets_go_of_others_is_let_go_in_time`
//! - `src/loom_models/firing.rs`: `a_timer_that_was_discarded_elsewhere_does_not_fire_while_others_are_discarded`
//!
//! # A stale key harms nobody
//!
//! A key of the [core](crate::wheel::Hierarchy) whose entry is gone finds nothing, also when its place is another's;
//! nor does one of a [`DelayQueue`](crate::time::DelayQueue) whose item is gone.
//!
//! - `tests/hierarchy_model.rs`: `a_wheel_does_what_an_ordered_map_does_to_within_a_tick`
//! - `tests/model/regressions.rs`: `a_stale_key_does_not_find_what_stands_where_its_entry_was_taken_from_the_front`
//! - `src/wheel/slab/tests.rs`: `an_index_that_is_used_again_makes_another_key`
//! - `src/wheel/rescheduling.rs`: `a_stale_key_moves_nobody`
//! - `tests/delay_queue/keys.rs`: `a_key_that_has_outlived_its_item_touches_no_other`
//! - `fuzz/targets/core.rs`
//!
//! # Memory follows what is pending
//!
//! A pending timer takes 72 bytes, its future included, and once a wheel is warm nothing is allocated for it. The
//! memory of a storm is given back, in pages of 1,024 entries; a page stays while anything is in it, and is filled
//! first. What a bucket took for its keys, 8 bytes each, stays until it is emptied; then it keeps room for 64. There
//! are as many buckets as levels have slots.
//!
//! - `tests/allocations.rs`: `a_warm_wheel_allocates_nothing`
//! - `tests/hierarchy_memory.rs`: `a_million_entries_in_one_bucket_go_out_in_batches_and_give_their_memory_back`,
//!   `memory_follows_entries_that_leave_at_both_ends_of_the_order_in_which_they_came`,
//!   `a_page_stays_while_anything_is_in_it_and_its_room_is_used_first`
//! - `tests/hierarchy_bytes.rs`: `a_year_of_storms_leaves_the_memory_of_the_slots_and_of_one_page`
//! - `src/wheel/bucket/tests.rs`: `an_emptied_bucket_keeps_little_memory`
//! - `tests/leaks.rs`: `ten_thousand_wheels_leave_no_task_no_thread_and_no_memory`
//! - `tests/live_allocations.rs`: `ten_thousand_wheels_leave_not_a_byte_however_they_end`
//!
//! # A bound is a bound
//!
//! With [`max_pending`](crate::Builder::max_pending) never more timers are pending, on any number of threads, and no
//! place is lost. What is refused says so.
//!
//! - `tests/max_pending.rs`: `exactly_as_many_timers_are_pending_as_the_bound_allows`,
//!   `threads_that_fight_for_places_never_hold_more_than_there_are_and_lose_none`,
//!   `no_place_is_lost_to_timers_that_fire_while_others_are_dropped`
//! - `tests/deadlines_model.rs`: `whatever_is_done_to_timers_they_elapse_as_their_deadlines_say`
//! - `src/loom_models/firing.rs`: `no_more_places_are_taken_than_there_are_and_none_is_lost`,
//!   `a_timer_that_is_cancelled_as_it_fires_gives_its_place_back_once`
//! - `fuzz/targets/api.rs`
//!
//! # The end is told
//!
//! When a wheel ends, by [`shutdown`](crate::TimingWheel::shutdown), by its runtime's end or with the last of its
//! handles and futures, whatever is pending is woken. What has an error to return returns it; a sleep panics with a
//! sentence that says why, unless its deadline has come. Nothing waits for ever, and no task and no thread is left.
//! A runtime that nobody runs is not at its end, so its wheel is not either: see what is
//! [not promised](#what-is-not-promised).
//!
//! - `tests/end_of_life.rs`: `shutdown_tells_how_many_were_pending_and_wakes_them_all`,
//!   `after_a_shutdown_a_pending_sleep_panics_and_says_why`,
//!   `after_a_shutdown_a_pending_timeout_returns_an_error_that_says_why`,
//!   `after_a_shutdown_a_sleep_is_ready_once_its_deadline_has_passed`,
//!   `when_the_runtime_ends_all_that_are_pending_are_woken`,
//!   `the_driver_ends_with_the_last_handle_when_nothing_is_left_of_the_wheel`,
//!   `on_a_paused_clock_the_driver_ends_with_the_last_timer_though_a_thread_had_one_before`
//! - `tests/leaks.rs`: `ten_thousand_wheels_leave_no_task_no_thread_and_no_memory`
//! - `tests/faults/runtimes.rs`: `a_runtime_that_is_dropped_wakes_a_million_timers`,
//!   `a_runtime_that_is_shut_down_while_a_worker_is_blocked_wakes_what_is_pending`,
//!   `a_waker_may_end_the_runtime_that_the_driver_runs_on`
//! - `src/loom_models/end.rs`: `a_timer_registered_as_the_wheel_ends_is_refused_or_woken`,
//!   `a_timer_that_fires_as_the_wheel_ends_is_woken_once`, `a_wheel_shut_down_as_the_driver_goes_to_sleep_wakes_it`
//! - `src/loom_models/futures.rs`: `a_task_whose_wheel_ends_gets_the_error`
//! - `tests/delay_queue/end.rs`: `at_the_end_of_the_wheel_who_waits_is_woken_and_told_and_no_item_is_lost`
//! - `fuzz/targets/api.rs`
//!
//! # An operation has one end
//!
//! What is watched in a [purgatory](crate::purgatory) completes, expires, is cancelled, or is told of the wheel's end,
//! once, whoever wins. No change that is checked is missed, nobody waits for a condition that another thread tries, and
//! what has ended stands in no list. What a condition has returned goes to the future, or is given back if that is gone.
//!
//! - `tests/purgatory/model.rs`: `a_purgatory_does_what_a_naive_list_does`
//! - `tests/purgatory/racing.rs`: `whoever_wins_each_operation_has_one_outcome_and_all_counts_agree`,
//!   `a_change_that_is_checked_is_never_missed_while_others_check_and_watch`,
//!   `a_condition_that_is_being_tried_as_a_check_comes_is_tried_once_more`,
//!   `who_tries_a_condition_is_not_kept_by_others_that_check_all_the_time`
//! - `tests/purgatory/checks.rs`: `conditions_that_check_each_other_complete_in_a_chain`,
//!   `a_condition_that_does_not_hold_yet_is_tried_again_when_one_within_it_checks_its_key`,
//!   `a_check_in_tasks_may_hold_a_lock_that_conditions_take`
//! - `tests/purgatory/give_back.rs`: `no_item_that_a_condition_has_popped_is_lost_when_select_drops_its_future`,
//!   `an_item_that_another_thread_pops_as_the_future_is_dropped_is_given_back_there`
//! - `tests/purgatory_memory.rs`: `a_million_operations_that_ended_hold_no_memory_under_a_key_that_is_never_checked`
//! - `src/loom_models/purgatory.rs`: `of_two_changes_under_two_keys_the_last_is_not_missed`,
//!   `a_change_that_is_checked_as_an_operation_is_added_is_not_missed`,
//!   `of_a_check_a_cancel_and_the_deadline_one_wins`, `an_operation_dropped_as_it_is_checked_leaves_nothing_behind`,
//!   `an_operation_added_as_the_purgatory_is_shut_down_is_cancelled`,
//!   `an_operation_added_to_one_list_as_the_next_is_closed_leaves_it`,
//!   `a_change_that_is_left_to_the_task_as_that_polls_is_not_missed`,
//!   `a_change_that_comes_after_too_many_others_is_left_to_the_task`
//!
//! # A job runs, or it is told why not
//!
//! A [job](crate::job) is cancelled in time or runs, never both and never neither; moved in time, it runs then and not
//! before. No code of a job's runs on the driver. When the wheel or its runtime ends, or they are stopped, all that did
//! not run is told of, by its key too; a stop hands its future back. A panic ends its own job and no other. A fixed rate does not drift.
//!
//! - `tests/jobs/later.rs`: `a_job_runs_at_its_time_and_hands_its_output_to_whoever_awaits_it`,
//!   `a_cancel_in_time_says_so_and_the_job_never_runs`, `a_job_that_never_ends_delays_no_other`,
//!   `over_the_bound_a_job_is_refused_and_its_future_given_back`
//! - `tests/jobs/faults.rs`: `a_panic_reaches_the_handle_with_what_it_carried_and_no_other_job`,
//!   `a_cancel_that_races_with_the_start_is_in_time_or_the_job_runs_and_never_both_or_neither`,
//!   `when_the_runtime_ends_pending_and_running_jobs_end_and_say_why`,
//!   `when_the_runtime_ends_whoever_awaits_a_job_elsewhere_does_not_hang`, `each_job_runs_in_a_task_of_its_own`
//! - `tests/jobs_memory.rs`: `a_pending_job_takes_one_block_and_a_cancelled_one_gives_all_back_at_once`
//! - `tests/jobs/schedules.rs`: `after_a_million_runs_of_10_ms_the_sum_is_exact`,
//!   `missed_runs_are_made_up_put_off_or_left_out_as_an_intervals_ticks`,
//!   `a_schedule_moves_the_run_that_its_job_waits_for`
//! - `tests/jobs/orders.rs`: `what_is_asked_while_the_schedule_finds_no_further_run_counts`
//! - `tests/jobs/resets.rs`: `a_reset_that_races_with_the_start_moves_the_job_or_lets_it_run_and_never_both_or_neither`,
//!   `a_job_that_is_moved_while_the_driver_is_on_its_way_to_it_does_not_run_too_early`
//! - `tests/jobs/aborts.rs`: `aborts_among_threads_end_each_job_one_way_or_the_other`
//! - `tests/jobs/joins.rs`: `each_of_many_tasks_is_told_how_the_job_ended`
//! - `tests/jobs/stops.rs`: `a_stop_hands_back_the_futures_of_what_was_pending`
//! - `tests/jobs/tolerant.rs`: `a_fixed_rate_that_may_be_late_neither_drifts_nor_counts_that_as_missed`
//! - `tests/jobs/ended.rs`: `on_a_wheel_that_has_ended_no_job_runs_however_soon_it_is_due`
//! - `tests/jobs/ends.rs`: `when_the_runtime_ends_repeating_jobs_end_and_say_why`
//! - `tests/jobs/keys.rs`: `a_stop_tells_of_every_job_that_has_not_run_and_takes_no_more`,
//!   `a_job_that_is_removed_or_replaced_during_its_run_goes_on_to_the_end_of_it_and_no_further`
//! - `tests/jobs/bound.rs`: `a_wheel_that_is_full_while_a_repeating_job_runs_does_not_end_it`,
//!   `a_job_is_replaced_on_a_wheel_that_is_full`,
//!   `a_repeating_job_that_is_replaced_as_its_run_ends_on_a_full_wheel_was_running`,
//!   `no_place_is_lost_or_made_up_among_threads`
//! - `tests/jobs/keys_faults.rs`: `among_threads_each_job_runs_or_is_told_of_and_never_both_or_neither`,
//!   `when_the_wheel_or_its_runtime_ends_the_keys_of_what_did_not_run_are_kept`
//!
//! # Wakers may do anything
//!
//! Run, cloned and dropped outside locks, they may do anything to the wheel. If one panics no other timer is lost.
//!
//! - `tests/wakers/panics.rs`: `a_waker_that_panics_when_woken_harms_no_other_timer`,
//!   `a_waker_that_panics_when_dropped_harms_no_other_timer`, `wakers_that_panic_do_not_stop_a_shutdown`
//! - `tests/wakers/calls.rs`: `a_waker_may_arm_drop_move_poll_and_count_timers_of_its_wheel`,
//!   `a_waker_may_shut_its_wheel_down`
//! - `tests/faults/panics_in_clone.rs`:
//!   `a_sleep_that_is_polled_again_with_a_waker_that_cannot_be_cloned_still_wakes_the_one_before`
//! - `tests/faults/threads.rs`: `a_waker_that_blocks_holds_others_up_for_so_long_and_loses_none`
//! - `tests/delay_queue/panics.rs`: `a_waker_that_panics_loses_no_item`
//! - `tests/purgatory/checks.rs`: `a_waker_may_check_the_key_that_it_is_woken_for`
//!
//! # Panics are written down
//!
//! Each method, or the type that it returns, says under that heading when it panics, or returns errors instead:
//! [`TimingWheel::new`] where it cannot be built, awaiting a sleep or a tick whose wheel has ended or is full, a job's
//! handle or a watch polled after it was ready, a call that runs or drops code of a user's which panics, a period or a
//! chunk size of zero, and, in the core, slots beyond the limits and a batch of zero. Settings beyond theirs are errors.
//!
//! - `tests/limits.rs`: `a_setting_beyond_its_limit_is_refused_and_both_are_named`,
//!   `outside_a_runtime_new_panics_and_names_its_caller`
//! - `tests/max_pending.rs`: `a_sleep_over_the_bound_panics_and_names_it`
//! - `tests/interval.rs`: `a_period_of_zero_is_refused`
//! - `tests/stream_chunks_timeout.rs`: `a_size_of_zero_is_refused`
//! - `tests/hierarchy_borders.rs`: `a_batch_of_nothing_is_refused`
//!
//! # A paused clock is followed
//!
//! With nothing set, and as tokio's own timers do but for the [differences](crate::migration#differences).
//!
//! - `tests/paused_clock.rs`: `mixed_with_tokios_timers_tasks_wake_at_the_same_instants_in_the_same_order`,
//!   `a_wheel_with_nothing_pending_lets_the_clock_stand`, `a_cancelled_timer_does_not_move_the_clock`,
//!   `a_poll_right_after_an_advance_sees_what_has_become_due`, `a_wheel_made_before_the_clock_was_paused_follows_it`
//! - `tests/switch/scripts.rs`: `each_of_many_random_tasks_sees_the_same_events_at_the_same_instants`
//! - `tests/deadlines_model.rs`: `whatever_is_done_to_timers_they_elapse_as_their_deadlines_say`
//!
//! # What is not promised
//!
//! - An order among timers that are due in the same tick.
//! - Lateness of a runtime that does not run: all of its workers are blocked, or the process is stopped. What came due
//!   meanwhile fires when it runs again.
//! - Anything of a wheel made in a current-thread runtime as long as nobody runs that by `block_on`. Its park turns the
//!   wheel, so nothing fires, on other threads neither; only [`Stats::overdue`](crate::Stats::overdue) tells.
//! - Timers where there is no memory: Rust then aborts the process. [`max_pending`](crate::Builder::max_pending) keeps
//!   them from coming to that (`tests/faults/memory.rs`).
//! - That time spent suspended counts: it does as far as tokio's clock counts it.
//! - Timers in the child of a `fork` without `exec`: it has neither the runtime's threads nor the watchdog's.
//!
//! [`TimingWheel::new`]: crate::TimingWheel::new
