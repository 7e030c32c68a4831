//! Whether a job has a place in a bound that stays with it, over its waits and its runs.

/// What a job remembers of that. It is a type, so that a job which never has such a place takes no memory for it.
pub(super) trait Place: Default + Send + 'static {
    /// Whether the job is to have one on a wheel with a bound.
    const STAYS: bool;

    fn is_taken(&self) -> bool;
    fn set_taken(&mut self, is_taken: bool);

    /// Tells whether there was one; there is none after that.
    fn leave(&mut self) -> bool {
        let was_taken = self.is_taken();
        self.set_taken(false);
        was_taken
    }
}

/// Of a job that runs once it is the entry that has the place.
impl Place for () {
    const STAYS: bool = false;

    fn is_taken(&self) -> bool {
        false
    }

    fn set_taken(&mut self, _is_taken: bool) {}
}

/// A job that repeats has it from its first wait to its end.
impl Place for bool {
    const STAYS: bool = true;

    fn is_taken(&self) -> bool {
        *self
    }

    fn set_taken(&mut self, is_taken: bool) {
        *self = is_taken;
    }
}
