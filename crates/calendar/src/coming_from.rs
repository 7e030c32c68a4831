//! Coming from another scheduler: what replaces what, and what each does on the two odd days of the year.
//!
//! The **short day** is the one on which clocks go forward, as from 02:00 to 03:00, and the **long day** the one on which
//! they go back, as from 03:00 to 02:00. The columns say what an expression does here on them, for a zone in which that
//! happens at two in the night.
//!
//! # Vixie's cron, cronie, crontab(5)
//!
//! | written there | here | short day | long day |
//! |---|---|---|---|
//! | `30 9 * * *`, any time that no change concerns | [`Cron::parse`](crate::Cron::parse) | once | once |
//! | `30 2 * * *` | the same | once, at 03:00 | once, at the first 02:30 |
//! | `0 2 * * *` and `30 2 * * *` as `0,30 2 * * *` | the same | once, at 03:00: two times of one gap are one run | 02:00 and 02:30, each at its first |
//! | `30 1-3 * * *`, a range or a list of hours | the same: fixed times | 01:30, 03:00 for 02:30, 03:30 | 01:30, the first 02:30, 03:30 |
//! | `*/15 * * * *`, `0 * * * *` | the same: intervals | real time: 01:45, then 03:00 | real time, both hours |
//! | `*/15 2 * * *`, a minute with `*` in that hour | the same: an interval | no run: that hour does not pass | in both hours: 8 runs |
//! | `30 */2 * * *` | the same: an interval | no run for 02:30 | at both 02:30 |
//! | `0 0 13 * FRI`: the 13th **or** a Friday | the same | by its hour | by its hour |
//! | `0 0 */2 * FRI`: odd days **and** Fridays, as one begins with `*` | the same | by its hour | by its hour |
//! | `@daily`, `@weekly`, `@monthly`, `@yearly` | the same | once; where midnight is left out, at the first instant of the day | once |
//! | `@hourly` | the same: an interval | 23 runs | 25 runs |
//! | `@reboot` | no rule: run it when the program starts | | |
//! | `CRON_TZ=Europe/Berlin` | [`in_zone`](crate::Cron::in_zone) | | |
//! | cron was not running | [`Missed`](crate#what-there-is): one run for all, unless told otherwise; Vixie's cron leaves them out, anacron runs one | | |
//!
//! Vixie's cron treats a clock that goes forward by three hours or more as corrected, and leaves out the runs in
//! between. Here a gap in a zone is always treated as a gap, however long it is. A clock that somebody sets is another
//! case: it leads to [missed runs](crate#what-there-is).
//!
//! # Quartz
//!
//! [`Cron::parse_quartz`](crate::Cron::parse_quartz) reads its expressions: six fields, the second first, **and days of
//! the week from 1, which is Sunday**. In [`Cron::parse`](crate::Cron::parse) `2-6` is Tuesday to Saturday.
//!
//! | Quartz | here | short day | long day |
//! |---|---|---|---|
//! | `0 30 2 * * ?` | `parse_quartz`, the same text | once, at 03:00; Quartz leaves it out | once, at the first |
//! | `0 0/15 * * * ?` | the same text. `0/15` does not begin with `*`, but `*` in the hour makes it an interval | real time | real time, both hours |
//! | `0 0/15 9-17 ? * MON-FRI` | the same text: fixed times, as neither field begins with `*` | by its hours | by its hours |
//! | `0 15 10 L * ?`, `L-3` | the same text | by its hour | by its hour |
//! | `0 15 10 LW * ?`, `15W` | the same text | by its hour | by its hour |
//! | `0 0 22-2 * * ?`, `NOV-FEB`, `FRI-MON`: ranges that go over the end | the same text; two ranges in `parse` | by its hours | by its hours |
//! | `0 15 10 ? * 6L`: the last Friday | the same text; `FRIL` and `5#L` in `parse` | by its hour | by its hour |
//! | `0 15 10 ? * 6#3`: the third Friday | the same text; `FRI#3` in `parse` | by its hour | by its hour |
//! | a seventh field with years | leave it out, and [`Combine::between`](crate::Combine::between) | | |
//! | both fields of days given | refused by Quartz; as in Vixie's cron here | | |
//! | `SimpleTrigger` by minutes or hours | [`Periodic`](crate::Periodic) | real time | real time |
//! | `CalendarIntervalTrigger` by days, weeks, months, years | [`Calendar`](crate::Calendar); from the anchor, so the 31st does not become the 28th for good | once, at the end of the gap | once, at the first |
//! | `preserveHourOfDayAcrossDaylightSavings` | always on, for each rule in a zone | | |
//! | `skipDayIfHourDoesNotExist` | [`Gap::Skip`](crate::Gap::Skip) | no run | once |
//! | `DailyTimeIntervalTrigger` | [`Cron`](crate::Cron), or [`Calendar::at_each`](crate::Calendar::at_each) | by its hours | by its hours |
//! | `HolidayCalendar`, `modifiedByCalendar` | [`BusinessDays`](crate::BusinessDays), [`Combine::except_days_of`](crate::Combine::except_days_of) | | |
//! | `withMisfireHandlingInstructionFireAndProceed` | `Missed::once()` | | |
//! | `withMisfireHandlingInstructionDoNothing` | `Missed::none()` | | |
//! | `withMisfireHandlingInstructionIgnoreMisfires` | `Missed::each(n)`, which has a bound | | |
//!
//! # systemd's timers
//!
//! | systemd | here | short day | long day |
//! |---|---|---|---|
//! | `OnCalendar=*-*-* 02:30:00` | `30 2 * * *` | once, at 03:00; systemd leaves it out. [`Gap::Skip`](crate::Gap::Skip) does so too | once, at the first |
//! | `OnCalendar=*:0/15` | `*/15 * * * *` | real time | both hours; systemd leaves the second out. [`Overlap::First`](crate::Overlap::First) does so too |
//! | `OnCalendar=Mon..Fri 09:00` | `0 9 * * MON-FRI` | once | once |
//! | `OnCalendar=*-*~01`: the last day | `0 0 L * *` | once | once |
//! | `OnUnitActiveSec=90min` | [`Periodic`](crate::Periodic) | real time | real time |
//! | `Persistent=true` | `WallSchedule::since` with `Missed::once()` | | |
//!
//! # Python: `APScheduler`, Celery
//!
//! | there | here | short day | long day |
//! |---|---|---|---|
//! | `CronTrigger(hour=2, minute=30)`, `crontab(hour=2, minute=30)` | `30 2 * * *` | once, at 03:00 | once, at the first |
//! | `CronTrigger(day='last')`, `day='3rd fri'` | `0 0 L * *`, `0 0 * * FRI#3` | once | once |
//! | `IntervalTrigger(minutes=90)`, `schedule(timedelta(minutes=90))` | [`Periodic`](crate::Periodic) | real time | real time |
//! | `CalendarIntervalTrigger(months=1)`: leaves short months out | [`Calendar::months`](crate::Calendar::months) with [`MonthEnd::LeaveOut`](crate::MonthEnd::LeaveOut) | once | once |
//! | `DateTrigger`, `apply_async(eta=…)` | [`Once`](crate::Once) | | |
//! | `OrTrigger`, `AndTrigger` | [`Combine::or`](crate::Combine::or); no and | | |
//! | `misfire_grace_time`, `coalesce` | `Missed::none_older_than`, `Missed::once` | | |
//! | `timezone=…` | [`in_zone`](crate::Cron::in_zone) | | |
//!
//! # iCalendar, RFC 5545
//!
//! | rule | here | short day | long day |
//! |---|---|---|---|
//! | `FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR` | [`Calendar::weeks`](crate::Calendar::weeks) with [`on`](crate::Calendar::on) | RFC: 02:30 becomes 03:30, as with [`Gap::Shift`](crate::Gap::Shift); here 03:00 | once, at the first |
//! | `FREQ=MONTHLY;BYMONTHDAY=31` | [`MonthEnd::LeaveOut`](crate::MonthEnd::LeaveOut) | the same | once |
//! | `FREQ=MONTHLY;BYDAY=-1FR` | [`MonthDay::Weekday`](crate::MonthDay::Weekday) | the same | once |
//! | `FREQ=YEARLY` from 29 February | [`Calendar::years`](crate::Calendar::years) with [`MonthEnd::LeaveOut`](crate::MonthEnd::LeaveOut) | the same | once |
//! | `COUNT=5`, `UNTIL=…` | [`Combine::times`](crate::Combine::times), [`Combine::until`](crate::Combine::until) | | |
//! | `EXDATE` | [`Combine::except_at`](crate::Combine::except_at), [`Combine::except_days_of`](crate::Combine::except_days_of) | | |
//! | `RDATE` | [`Once`](crate::Once) and [`Combine::or`](crate::Combine::or) | | |
//!
//! # croner, `cron`, tokio-cron-scheduler
//!
//! | there | here | short day | long day |
//! |---|---|---|---|
//! | croner: a list, as `0,30 2 * * *`, is an interval | fixed times, as in Vixie's cron | croner: no run; here 03:00 | croner: both times; here the first |
//! | croner: an error at a day that a zone leaves out | it goes on | | |
//! | `cron` 0.17: leaves out what is in a gap | at 03:00 | | `cron`: both times; here the first |
//! | tokio-cron-scheduler: an offset that is fixed when a job is made | the zone's, for each run | an hour off from then on | the same |
