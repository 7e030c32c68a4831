//! Whether a job has a permit in the wheel's bound that stays with it, over its waits and its runs.

/// What a job remembers of its permit. It is a type, so that a job that never keeps a permit takes no memory for it.
pub(super) trait KeptPermit: Default + Send + 'static {
    /// Whether the job has a permit.
    fn is_taken(&self) -> bool;
    /// Notes that the job has a permit, or that it has none.
    fn set_taken(&mut self, is_taken: bool);
    /// Whether another job has taken the permit over.
    fn is_handed_over(&self) -> bool;
    /// Notes that another job takes the permit over, and returns whether there was one.
    fn hand_over(&mut self) -> bool;

    /// Returns whether there was a permit. There is none after that.
    fn leave(&mut self) -> bool {
        let was_taken = self.is_taken();
        self.set_taken(false);
        was_taken
    }
}

/// For a job that runs once: its entry has the permit.
impl KeptPermit for () {
    fn is_taken(&self) -> bool {
        false
    }

    fn set_taken(&mut self, _is_taken: bool) {}

    fn is_handed_over(&self) -> bool {
        false
    }

    fn hand_over(&mut self) -> bool {
        false
    }
}

/// The permit of a repeating job, which has it from its first wait to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum PermitOfRepeating {
    #[default]
    None,
    Taken,
    HandedOver,
}

impl KeptPermit for PermitOfRepeating {
    fn is_taken(&self) -> bool {
        *self == Self::Taken
    }

    fn set_taken(&mut self, is_taken: bool) {
        *self = if is_taken { Self::Taken } else { Self::None };
    }

    fn is_handed_over(&self) -> bool {
        *self == Self::HandedOver
    }

    fn hand_over(&mut self) -> bool {
        let was_taken = self.is_taken();
        if was_taken {
            *self = Self::HandedOver;
        }
        was_taken
    }
}
