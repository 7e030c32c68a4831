//! What checks and cancels do with an operation that they find in a list.

use super::error::WatchError;
use super::listed::{Listed, Places};
use super::operation::Operation;
use super::race::Tried;
use super::stage::{End, Stage, leave_to_task};

impl<K: Send + Sync, F: FnMut() -> Option<T> + Send, T: Send> Listed<K> for Operation<K, F, T> {
    fn places(&self) -> &Places<K> {
        &self.places
    }

    fn check(&self) -> bool {
        self.take_condition(None).is_some_and(|condition| self.run(condition) == Tried::Completed)
    }

    fn check_in_task(&self) -> bool {
        let mut state = self.state.lock();
        match &mut state.stage {
            Stage::Waiting(_) => leave_to_task(state),
            Stage::Tried { .. } => state.leave_word(None, self.is_tried_here()),
            Stage::Ended(_) => return false,
        }
        true
    }

    fn end(&self, why: WatchError) -> bool {
        self.end_untried(End::Because(why))
    }
}
