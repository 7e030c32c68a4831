//! The runs of a job: how one begins, how the next is armed, and how the job ends.

use std::mem;
use std::panic::resume_unwind;
use std::ptr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures::future::AbortHandle;
use tokio::time::Instant;

use super::{Code, Found, MISSED_AFTER, Move, Polled, Record, Run, Stage, State, timer};
use crate::error::{JobError, Kind};
use crate::info::JobState;
use crate::jobs::Key;
use crate::schedule::{LastRun, Next};
use crate::task::{Task, Work};
use crate::{caught, discard};

impl<K: Key, W: Work> Record<K, W> {
    /// A job that is due begins, on the wheel's runtime, or waits for a place.
    pub(super) fn begin(self: &Arc<Self>, mut state: MutexGuard<'_, State<K, W>>) {
        let ticket = state.table.as_ref().and_then(|table| table.enter(self.clone()));
        let Some(ticket) = ticket else { return self.spawn(state, None) };
        state.stage = Stage::Queued { ticket, since: Instant::now() };
        let table = state.table.clone();
        drop(state);
        if let Some(table) = table {
            // There may be places since the bound was raised.
            table.fill();
        }
    }

    pub(super) fn spawn(self: &Arc<Self>, mut state: MutexGuard<'_, State<K, W>>, queued: Option<Duration>) {
        let (abort, start) = AbortHandle::new_pair();
        let is_last = !W::REPEATS;
        let run = Run { is_last, moved: None, abort: Some(abort), is_woken: false, queued, refused: None };
        state.stage = Stage::Runs(run);
        let code = state.code.take();
        drop(state);
        let task = Task { record: self.clone(), code }.run(start);
        #[cfg(feature = "tracing")]
        let task = tracing::Instrument::instrument(task, self.span.clone());
        tokio::spawn(task);
    }

    /// For a run that begins: whether its schedule is asked to leave it out. `None` if no further run begins.
    pub(crate) fn begins(&self) -> Option<bool> {
        let state = self.lock();
        let Stage::Runs(run) = &state.stage else { return None };
        // A wait for a place is not the schedule's.
        let may_be_late = run.queued.is_none() || self.is_missed(&state, Instant::now());
        (!W::REPEATS || !run.is_last).then_some(!state.is_users && may_be_late)
    }

    /// Whether a run that began then is late enough to count as missed, without the time that it has waited for a place.
    fn is_missed(&self, state: &State<K, W>, started: Instant) -> bool {
        let expected = state.due.map_or(state.expected, |due| due.max(state.expected));
        let late = started.saturating_duration_since(expected);
        let queued = if let Stage::Runs(run) = &state.stage { run.queued } else { None };
        late.saturating_sub(queued.unwrap_or_default()) > MISSED_AFTER.max(self.wheel.tick())
    }

    /// The run that ends now.
    pub(crate) fn last_run(&self, started: Instant) -> LastRun {
        let state = self.lock();
        let missed = self.is_missed(&state, started);
        LastRun { due: state.due.unwrap_or(started), started, ended: Instant::now(), missed }
    }

    /// After a run: waits for the next, and takes the code for that, if there is one. A time that the user has set during the
    /// run comes before `next`. The stage is `Runs` until the timer is armed, so a refusal or a panic here leaves the code in
    /// the task, which ends the job.
    pub(crate) fn wait_again(
        self: &Arc<Self>,
        next: Next,
        code: &mut Option<Code<W>>,
    ) -> Result<(), JobError> {
        let mut state = self.lock();
        let moved = state.run_that_goes_on()?.moved.take();
        // A run that is moved to the past has missed nothing.
        let moved = moved.map(|to| to.max(self.wheel.current_time()));
        let Some(due) = moved.or(next.due) else {
            // A cancel or a reset from now on is too late.
            state.run_that_goes_on()?.is_last = true;
            return Ok(());
        };
        let table = state.table.clone();
        drop(state);
        let mut sleep = timer(&self.wheel, due, next.tolerance);
        let expected = sleep.deadline();
        let polled = self.poll(&mut sleep);
        if let Polled::Refused(error) | Polled::Lost(error) = polled {
            // A cancel, an abort or a reset from now on is too late.
            let mut state = self.lock();
            let run = state.run_that_goes_on()?;
            (run.is_last, run.abort, run.refused) = (true, None, Some(due));
            return Err(JobError::could_not_run(&self.wheel, error));
        }
        // Before the job waits: others that wait for its place come first.
        if let Some(table) = table {
            table.leave(Arc::as_ptr(self).addr());
        }
        let mut state = self.lock();
        let run = state.run_that_goes_on()?;
        let (to, is_woken) = (run.moved.take(), run.is_woken);
        let to = to.map(|to| Move { to, is_users: true, may_be_soon: true });
        (state.due, state.expected) = (Some(due), expected);
        state.is_users = moved.is_some() || next.is_users;
        state.code = code.take();
        let run = mem::replace(&mut state.stage, Stage::in_hand(to, is_woken, false));
        drop(state);
        drop(run);
        self.put_down(sleep, polled, None);
        Ok(())
    }

    /// Ends a job in whose task something has come to its end.
    pub(crate) fn finish(&self, code: Code<W>, mut ended: Result<(), JobError>) {
        let mut state = self.lock();
        if let Stage::Runs(Run { abort: None, .. }) = state.stage {
            // An abort has told its caller that it was in time.
            ended = ended.and(Err(JobError(Kind::Cancelled)));
        }
        state.code = Some(code);
        self.end(state, ended, true);
    }

    /// Ends a job, and drops its code. Then it leaves the list, unless it was taken out before, and at last those who wait for
    /// its end are told. Panics if dropping the code does.
    pub(super) fn end(
        &self,
        mut state: MutexGuard<'_, State<K, W>>,
        ended: Result<(), JobError>,
        is_listed: bool,
    ) {
        debug_assert!(!matches!(state.stage, Stage::Over { .. }), "a job ends once");
        let over = ended.as_ref().map_or_else(JobError::state, |()| JobState::Done);
        let mut is_cut_off = false;
        if let Stage::Runs(run) = &state.stage {
            is_cut_off = run.is_cut_off() || over == JobState::CouldNotRun && run.refused.is_none();
            state.due = run.refused;
        } else if over != JobState::CouldNotRun {
            state.due = None;
        }
        let stage = mem::replace(&mut state.stage, Stage::Over { state: over, is_cut_off });
        let (joins, code, table) = (mem::take(&mut state.joins), state.code.take(), state.table.take());
        drop(state);
        if over == JobState::Panicked {
            self.wheel.note_panic();
            // A subscriber is a user's code too.
            #[cfg(feature = "tracing")]
            let _ = caught(|| tracing::error!(parent: &self.span, "a job panicked"));
        }
        let (mut dropped, mut told) = (Ok(()), None);
        if let Some((mut work, tell)) = code {
            told = tell.zip(ended.map(|()| work.output()).transpose());
            dropped = caught(|| drop(work));
        }
        if let Some(table) = table {
            let address = ptr::from_ref(self).addr();
            if is_listed {
                table.over(self.hash, address, over);
            }
            match stage {
                Stage::Runs(_) => table.leave(address),
                Stage::Queued { ticket, .. } => table.leave_queue(ticket),
                _ => {}
            }
            // With the last reference go the keys of jobs that could not run.
            discard(table);
        }
        for join in joins {
            _ = caught(|| join.send(over));
        }
        drop(stage);
        if let Some((tell, result)) = told {
            _ = tell.send(result);
        }
        if let Err(panic) = dropped {
            resume_unwind(panic.into_panic().expect("it is one"));
        }
    }

    pub(super) fn cancel_found(
        &self,
        mut state: MutexGuard<'_, State<K, W>>,
        aborts: bool,
        is_listed: bool,
    ) -> Found {
        let info = state.info();
        let is_changed = match &mut state.stage {
            Stage::Waits(_) | Stage::InHand(_) | Stage::Queued { .. } => {
                self.end(state, Err(JobError(Kind::Cancelled)), is_listed);
                true
            }
            Stage::Runs(run) if aborts => {
                run.is_last = true;
                let abort = run.abort.take();
                drop(state);
                abort.map(|abort| abort.abort()).is_some()
            }
            Stage::Runs(run) => !mem::replace(&mut run.is_last, true),
            Stage::Over { .. } => false,
        };
        Found { info, is_changed }
    }
}
