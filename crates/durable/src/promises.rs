//! The promises that you may rely on, and the tests of each.
//!
//! # None lost
//!
//! Once [`save`](crate::Saving::save) has answered, the timer reaches its handler, even if the process is killed or the
//! power fails at any moment. If the process ends before the result of an attempt is stored, the timer is attempted
//! again.
//!
//! - `tests/it/proof/kills.rs`: `after_a_kill_at_each_step_none_is_lost_early_removed_or_doubled`,
//!   `after_kills_at_random_moments_none_is_lost_early_removed_or_doubled`
//! - `tests/it/proof/power.rs`: `what_was_answered_is_there_after_power_was_lost_at_any_change_of_the_file`
//! - `tests/it/proof/failures.rs`: `a_store_that_fails_again_and_again_loses_nothing_and_says_so`,
//!   `a_store_that_is_gone_for_a_minute_delays_and_stops_nothing`
//! - `tests/it/proof/disk.rs`: `a_full_disk_refuses_saves_loses_nothing_and_goes_on_when_there_is_room`,
//!   `a_file_that_cannot_be_written_any_more_answers_no_save`
//! - `tests/it/proof/races/one.rs`: `a_save_during_a_load_is_armed_at_once_wherever_it_is_due`,
//!   `two_moves_to_and_fro_lose_nothing_in_any_order`, `a_move_between_two_attempts_loses_nothing_in_any_order`
//! - `tests/it/proof/unheard.rs`: `a_move_a_save_and_a_revival_whose_answers_are_lost_are_armed_all_the_same`,
//!   `a_move_whose_caller_has_gone_is_armed_all_the_same`, `what_may_have_begun_is_not_left_to_a_later_load`,
//!   `a_run_that_ends_after_its_wheel_is_stored_also_if_the_store_fails_at_first`
//! - `src/window.rs`: `in_random_orders_of_saves_removals_loads_and_notices_none_is_missed_up_to_the_end`
//! - `tests/it/runner/owners.rs`: `what_was_due_while_nobody_was_there_is_due_at_the_start_in_order`
//!
//! # Never before its time
//!
//! No timer is early by the wall clock, even if that clock is set back or drifts.
//!
//! - `tests/it/runner/handlers.rs`: `a_timer_is_handed_to_its_handler_at_its_time_and_never_before`
//! - `tests/it/runner/clocks.rs`: `a_clock_that_is_set_back_makes_nothing_early_and_nothing_twice`,
//!   `a_clock_that_drifts_makes_nothing_early`, `a_clock_that_is_set_forward_makes_due_what_it_has_passed`
//! - `tests/it/runner/windows.rs`: `timers_are_loaded_ahead_of_their_time_wherever_they_were_saved`,
//!   `no_more_is_in_memory_than_the_window_and_all_fire_at_their_time`
//!
//! # A cancel is answered right
//!
//! After [`Removed`](crate::Cancelled::Removed) no handler is called. A cancel answers
//! [`Running`](crate::Cancelled::Running) in three cases only. The handler was called. Or another instance has begun
//! the timer and has not called its handler yet: if that instance gives the timer back, another cancel removes it. Or
//! somebody has edited the timer's row in the database, so that it cannot be read. A cancel that ended a timer does not
//! answer [`NotFound`](crate::Cancelled::NotFound). Moves keep the same promise.
//!
//! - `tests/it/proof/races/one.rs`: `a_cancel_is_answered_right_in_all_orders_with_load_begin_and_settle`,
//!   `a_cancel_is_answered_right_in_all_orders_where_begin_comes_ahead_of_time`,
//!   `a_move_is_answered_right_in_all_orders_and_the_timer_comes_once_at_its_last_time`,
//!   `a_move_is_answered_right_in_all_orders_where_begin_comes_ahead_of_time`
//! - `tests/it/proof/races/two.rs`: `two_cancels_are_answered_removed_once_at_the_most`,
//!   `two_moves_of_what_may_wait_are_both_answered_right`, `a_cancel_and_a_move_of_what_may_wait_are_both_answered_right`
//! - `tests/it/proof/redb_races.rs`: `random_cancels_and_moves_on_a_file_are_answered_right`
//! - `tests/it/proof/unheard.rs`: `a_cancel_after_a_begin_whose_answer_was_lost_removes_the_timer`,
//!   `a_cancel_is_not_answered_removed_where_another_owner_has_followed_meanwhile`,
//!   `a_move_whose_timer_was_taken_back_moves_it_although_the_answer_was_lost`,
//!   `a_cancel_whose_attempt_ended_before_it_heard_of_that_is_told_so`,
//!   `a_cancel_of_what_a_stop_gives_back_meanwhile_has_removed_it`
//! - `tests/it/every_store.rs`: `a_cancel_whose_timer_goes_before_the_answer_comes_is_told_that_it_ran`
//! - `tests/it/postgres/instances.rs`: `a_cancel_of_what_another_instance_gives_back_has_removed_it`
//! - `tests/it/proof/shared.rs`:
//!   `a_cancel_whose_result_was_on_its_way_when_the_lease_was_lost_is_not_answered_removed_where_it_runs`
//! - `tests/it/runner/moves.rs`: `a_cancel_wins_until_the_handler_is_called`,
//!   `nothing_follows_what_was_cancelled_while_it_ran`
//!
//! # Twice only with cause
//!
//! A handler is called again for a timer only in four cases: the last attempt failed, asked for another attempt, or
//! ended with its process, or another owner has taken over. The new attempt then has a higher number. After a takeover
//! the results of the former owner are refused, and its handlers are told.
//!
//! - `tests/it/proof/kills.rs`: `after_a_kill_at_each_step_none_is_lost_early_removed_or_doubled`
//! - `tests/it/runner/owners.rs`: `a_handler_whose_timer_is_lost_is_told_and_its_result_is_refused`,
//!   `what_a_process_dies_of_again_and_again_is_buried`
//! - `tests/it/runner/handlers.rs`: `an_attempt_that_fails_is_made_again_and_buried_when_there_are_no_more`
//! - `tests/it/proof/unheard.rs`: `a_begin_whose_answer_was_lost_is_no_attempt`
//! - `tests/it/proof/too_late.rs`:
//!   `calls_that_have_waited_for_longer_than_a_lease_are_made_if_it_was_renewed_meanwhile`
//!
//! # The same holds for many instances
//!
//! Any number of instances on one PostgreSQL may be killed, stopped past their lease and continued, or cut off.
//!
//! - `tests/it/postgres/proof.rs`:
//!   `instances_that_are_killed_stopped_and_cut_off_lose_nothing_and_repeat_nothing_without_cause`,
//!   `a_database_that_is_restarted_and_killed_delays_and_loses_nothing`, `without_the_fence_the_checker_sees_faults`
//! - `tests/it/postgres/faults.rs`: `eight_instances_under_all_faults_lose_nothing_and_repeat_nothing_without_cause`,
//!   `clocks_that_are_off_and_drift_make_nothing_early_and_repeat_nothing`
//! - `tests/it/postgres/races.rs`: `cancels_and_moves_from_everywhere_are_answered_right`
//! - `tests/it/postgres/clock.rs`: `results_and_begins_after_the_clock_was_set_forward_are_not_lost`
//! - `tests/it/postgres/many.rs`: `a_begin_looks_each_timer_up_also_where_the_table_has_no_statistics`
//! - `tests/it/postgres/schemas.rs`: `timers_of_two_schemas_in_one_database_have_nothing_to_do_with_each_other`
//! - `tests/it/postgres/instances.rs`: `instances_share_all_shards_evenly_as_they_join_leave_and_die`,
//!   `what_an_instance_has_begun_stays_its_own_when_the_shard_goes_to_another_that_joins`,
//!   `a_begin_of_who_has_lost_the_shard_or_the_lease_begins_nothing`,
//!   `timers_of_all_instances_come_once_wherever_they_were_saved`,
//!   `a_timer_that_another_program_saves_for_a_moment_from_now_is_hinted_at`,
//!   `without_hints_a_look_finds_what_another_program_saves`,
//!   `an_instance_that_has_lost_its_lease_joins_again_and_its_handlers_are_told`
//! - `tests/it/postgres/shares.rs`: `an_instance_without_handlers_has_no_shards_and_its_timers_come_elsewhere`,
//!   `a_renewal_looks_from_when_it_is_told_and_without_that_not_at_all`
//! - `tests/it/postgres/locks.rs`:
//!   `a_begin_whose_answer_was_lost_is_answered_again_after_the_shard_has_moved_and_while_a_row_is_locked`,
//!   `a_row_that_cannot_be_read_is_not_answered_as_locked_where_another_is_gone`,
//!   `an_instance_leaves_at_once_although_a_transaction_has_locked_what_it_has_begun`,
//!   `an_open_cancel_of_timers_that_run_delays_their_results_and_no_others`,
//!   `a_cancel_and_a_move_by_key_find_what_a_replacement_puts_there_meanwhile`
//! - `tests/it/postgres/hints.rs`:
//!   `what_transactions_save_at_the_same_time_is_found_although_one_of_them_tells`,
//!   `what_transactions_save_at_the_same_time_is_found_although_hints_come_all_the_time`,
//!   `what_an_instance_saves_before_it_knows_that_it_has_lost_the_shards_is_told_once_it_does`,
//!   `two_instances_on_clones_of_one_store_hear_of_each_others_timers`,
//!   `timers_that_a_program_saves_before_it_ends_are_hinted_at`, `an_instance_leaves_although_its_hints_cannot_be_sent`
//! - `tests/it/postgres/rights.rs`:
//!   `a_program_that_only_saves_cancels_and_moves_needs_the_rights_that_are_listed_and_no_others`,
//!   `an_instance_needs_the_rights_that_are_listed_and_no_others`
//! - `tests/it/proof/locked.rs`: `a_timer_that_somebody_holds_is_begun_after_that_and_keeps_back_no_other`,
//!   `a_begin_whose_answer_was_lost_is_asked_for_until_nobody_holds_the_timer`,
//!   `an_end_whose_timer_somebody_holds_is_told_after_that_and_keeps_back_no_other`
//! - `tests/it/proof/shared.rs`: `an_instance_that_hears_of_others_while_it_renews_renews_again_at_once`,
//!   `what_others_have_saved_is_found_without_hints_and_what_was_due_long_ago_within_a_minute`,
//!   `what_an_instance_saves_after_it_has_joined_again_is_armed_at_once`,
//!   `with_a_scheduler_outside_hints_are_heard_as_without_one`,
//!   `an_instance_that_has_the_store_alone_and_is_followed_while_it_runs_is_lost_for_good`,
//!   `an_instance_whose_wheel_has_ended_renews_until_its_handlers_have_ended_and_hands_over`
//! - `tests/it/postgres/sole.rs`: `a_program_that_has_all_timers_and_is_followed_is_lost_for_good_and_changes_nothing`
//! - `src/health.rs`: `each_symptom_is_told_alone_and_what_is_within_bounds_is_none`
//!
//! # The effects in the transaction that ends a timer happen exactly once
//!
//! - `tests/it/postgres/user_transaction.rs`:
//!   `what_is_done_with_finish_in_is_done_once_also_if_the_instance_is_taken_for_dead`,
//!   `a_timer_is_there_if_the_transaction_it_was_saved_in_is_committed`,
//!   `a_cancel_that_is_rolled_back_delays_its_timer_and_no_other`
//! - `tests/it/postgres/schemas.rs`: `timers_of_two_schemas_in_one_database_have_nothing_to_do_with_each_other`,
//!   `finish_in_for_a_timer_of_another_store_says_what_to_call`
//! - `tests/it/postgres/user_transaction.rs`: `finish_in_plans_the_next_run_by_the_clock_that_the_timer_was_due_by`
//!
//! # A series goes on exactly once
//!
//! Each occurrence has an id of its own. The transaction that ends a run also stores the next occurrence, which follows
//! from the scheduled instant of that run. Missed runs follow a policy with a bound.
//!
//! - `tests/it/runner/series.rs`: `a_series_goes_on_over_restarts_without_a_hole_and_without_a_double`,
//!   `after_an_outage_missed_runs_follow_the_policy`, `another_rule_takes_over_also_while_a_run_goes_on`,
//!   `an_occurrence_that_fails_is_made_again_and_the_series_goes_on_over_what_is_buried`
//! - `tests/it/runner/stops.rs`:
//!   `after_a_month_off_all_comes_in_order_within_bounds_and_series_by_their_policies`
//! - `tests/it/proof/too_late.rs`: `a_missed_run_whose_call_comes_too_late_is_made_after_that`
//! - `tests/it/runner/series.rs`: `missed_runs_have_their_bound_also_where_each_first_attempt_fails`,
//!   `a_series_that_gets_another_rule_during_its_last_run_goes_on_by_that`
//! - `tests/it/runner/series.rs`:
//!   `a_pending_run_keeps_its_time_and_its_attempts_when_the_series_is_saved_with_another_payload`,
//!   `a_clock_that_was_wrong_for_a_moment_silences_no_series`,
//!   `a_clock_that_is_right_again_at_the_next_start_silences_no_series`,
//!   `a_run_that_other_zone_data_planned_is_planned_anew_at_a_start_and_once_a_day`,
//!   `a_run_that_comes_up_before_its_rule_says_so_waits`
//! - `tests/it/every_store.rs`, in all three stores:
//!   `a_run_that_failed_gets_the_new_payload_and_keeps_its_time_and_attempts`,
//!   `a_run_that_is_overdue_at_a_start_gets_the_new_payload_and_policy`,
//!   `a_run_that_was_moved_gets_the_new_payload_and_stays_there`, `a_run_that_a_stop_has_given_back_gets_the_new_payload`,
//!   `a_run_whose_process_was_killed_gets_the_new_payload`,
//!   `runs_that_a_wrong_clock_or_other_zone_data_planned_are_planned_anew_at_a_start`,
//!   `a_single_run_that_was_missed_is_kept_by_a_save_at_the_next_start`, `a_handler_saves_the_next_timer_under_its_own_key`
//! - `src/next_run.rs`: `a_plan_of_a_wrong_clock_or_of_other_zone_data_is_made_anew`, `missed_runs_follow_their_policy`,
//!   `a_clock_that_is_set_back_plans_no_instant_again`, `a_rule_by_the_second_that_was_missed_for_a_year_passes_it_at_once`
//! - `tests/it/proof/kills.rs`: `after_kills_at_random_moments_none_is_lost_early_removed_or_doubled`
//!
//! # Far timers take no memory, and wake nobody
//!
//! - `tests/it/redb_far.rs`: `however_many_are_far_none_is_loaded_and_what_is_near_is`
//! - `tests/it/runner/windows.rs`: `no_more_is_in_memory_than_the_window_and_all_fire_at_their_time`,
//!   `what_is_saved_among_what_is_near_does_not_fill_the_memory_either`,
//!   `a_far_timer_wakes_nobody_but_for_a_look_at_the_clock_every_five_minutes`
//! - `tests/it/runner/clocks.rs`: `on_a_paused_clock_a_month_takes_as_many_turns_as_things_are_due`
//!
//! # A scheduler outside may fail
//!
//! If the scheduler does not call back about a timer, the scan finds the timer. No failure of the scheduler makes a
//! timer run early or twice.
//!
//! - `tests/it/runner/outside.rs`: `what_is_far_is_handed_over_and_called_back_without_a_look_at_the_store`,
//!   `a_call_back_that_is_lost_is_found_by_the_scan`, `call_backs_may_come_early_twice_and_for_what_is_gone`
//!
//! # A stop accounts for everything
//!
//! - `tests/it/runner/stops.rs`: `a_stop_waits_for_what_runs_and_begins_nothing_more`,
//!   `a_stop_gives_back_what_is_not_done_at_its_limit_and_the_attempt_counts`,
//!   `a_stop_calls_no_handler_any_more_and_what_was_not_called_is_no_attempt`,
//!   `a_stop_under_load_leaves_nothing_begun_and_loses_nothing`, `without_a_handle_what_runs_ends_and_nothing_more_begins`,
//!   `the_end_of_the_wheel_is_a_stop`
//! - `tests/it/runner/together.rs`: `a_stop_at_its_limit_drops_handlers_that_have_waited_since_their_first_poll`,
//!   `a_handler_that_blocks_its_thread_beyond_the_limit_of_a_stop_is_dropped_as_soon_as_it_waits`
//! - `tests/it/proof/failures.rs`: `a_stop_comes_to_an_end_also_where_the_store_fails`
//! - `tests/it/proof/unheard.rs`: `a_stop_comes_to_an_end_also_where_the_store_hangs`
//! - `tests/it/proof/shared.rs`: `an_instance_that_is_stopped_while_it_joins_again_leaves_its_share`
//! - `tests/it/redb_file.rs`: `after_stop_the_file_is_free_at_once`
//! - `tests/it/proof/unheard.rs`: `a_stop_waits_for_calls_of_the_store_that_are_under_way`
//! - `tests/it/proof/stops.rs`: `a_stop_waits_for_cancels_and_deletions_whose_callers_have_gone`,
//!   `a_move_that_a_stop_overtakes_is_refused`, `a_leave_that_fails_is_counted_also_where_a_load_hangs`,
//!   `a_stop_waits_for_one_page_of_an_inspection`
//! - `tests/it/postgres/hints.rs`: `timers_that_a_program_saves_before_it_ends_are_hinted_at`
//!
//! # Handlers do not wait for each other
//!
//! A handler may compute, wait, block its thread or be in `block_in_place`: it delays no other handler, and takes only
//! its own thread.
//!
//! - `tests/it/runner/together.rs`:
//!   `a_handler_that_blocks_its_thread_keeps_nothing_back_of_those_called_with_it`,
//!   `handlers_that_wait_keep_nothing_back_also_where_a_thread_is_blocked`,
//!   `handlers_in_block_in_place_may_wait_for_all_others_that_are_called_with_them`,
//!   `handlers_that_are_ready_at_once_or_not_or_panic_at_either_all_end_once`
//!
//! # Unknown kinds are left alone, and unreadable payloads are kept
//!
//! - `tests/it/runner/handlers.rs`: `a_kind_without_a_handler_is_left_alone_until_there_is_one`,
//!   `a_payload_that_cannot_be_read_is_buried_with_its_bytes`,
//!   `a_kind_whose_handler_was_forgotten_is_seen_when_it_is_saved_and_once_it_is_overdue`
//! - `tests/it/every_store.rs`: `a_timer_whose_kind_has_no_handler_is_seen`
//!
//! # Errors are told
//!
//! If the store can never take a save, only this save is refused, and not its batch. If a task has panicked, `Health`
//! says so.
//!
//! - `tests/it/postgres/limits.rs`: `a_key_that_is_too_long_is_refused_alone`
//! - `tests/it/every_store.rs`: `a_key_has_bounds_and_finds_its_timer`,
//!   `a_payload_that_is_too_large_is_refused_alone_with_its_size`
//! - `tests/it/postgres/instances.rs`: `an_error_names_the_address_and_its_causes_say_why_it_was_not_reached`,
//!   `what_the_database_refuses_is_told_without_its_details_which_may_quote_a_payload`
//! - `tests/it/runner/windows.rs`: `saves_of_large_payloads_go_to_the_store_in_parts`
//! - `tests/it/runner/panics.rs`: `after_a_panic_in_the_runner_saves_are_refused_and_the_health_says_so`,
//!   `a_scheduler_outside_may_panic_with_what_panics_as_it_is_dropped`,
//!   `settings_are_taken_up_to_their_bounds_and_refused_beyond_with_what_is_allowed`
//!
//! # The file has one owner
//!
//! - `tests/it/redb_file.rs`: `a_file_that_is_in_use_is_refused_with_the_name_of_its_owner`,
//!   `a_file_of_a_newer_format_is_refused_and_left_as_it_is`,
//!   `a_file_that_is_not_there_or_was_cut_to_nothing_is_no_new_store`
//! - `src/redb/file.rs`: `a_file_that_is_gone_when_it_is_opened_again_is_not_made_anew`
//!
//! # A damaged file is told, and a damaged timer stops no other
//!
//! - `tests/it/postgres/damage.rs`: `a_row_that_cannot_be_read_stops_no_other`
//! - `tests/it/redb_file.rs`: `a_damaged_timer_is_put_aside_and_all_others_run`,
//!   `damaged_pages_are_told_with_the_name_of_the_file_and_panic_nowhere`
//! - `src/redb/row.rs`: `bytes_with_any_bit_turned_cut_off_or_at_another_place_are_refused`
