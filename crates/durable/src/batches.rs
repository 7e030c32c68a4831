//! Questions that go to the store many at a time.

/// Questions that wait. If a call fails, its questions go again in halves, and without others. So one for which a call fails soon
/// stands alone, whatever else comes meanwhile.
pub(crate) struct Batches<T> {
    waiting: Vec<T>,
    /// The questions of each call that has failed.
    failed: Vec<Vec<T>>,
    /// How many go in one call now, and at the most.
    count: usize,
    most: usize,
}

impl<T> Batches<T> {
    pub(crate) const fn of_at_most(most: usize) -> Self {
        Self { waiting: Vec::new(), failed: Vec::new(), count: most, most }
    }

    pub(crate) fn push(&mut self, question: T) {
        self.waiting.push(question);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.failed.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.failed.iter().flatten().chain(&self.waiting)
    }

    pub(crate) fn take_all(&mut self) -> Vec<T> {
        let mut all: Vec<T> = std::mem::take(&mut self.failed).into_iter().flatten().collect();
        all.append(&mut self.waiting);
        all
    }

    /// How many may go in one call.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The questions of the next call, none if none wait.
    pub(crate) fn next(&mut self) -> Vec<T> {
        let Some(mut failed) = self.failed.pop() else {
            return self.waiting.drain(..self.waiting.len().min(self.count)).collect();
        };
        let rest = failed.split_off(failed.len().min(self.count));
        if !rest.is_empty() {
            self.failed.push(rest);
        }
        failed
    }

    /// A call with these has failed: for one of them, or, if `are_too_many`, perhaps because it took too long. Returns the only one
    /// if it was alone.
    pub(crate) fn failed(&mut self, mut batch: Vec<T>, are_too_many: bool) -> Option<T> {
        let half = batch.len() / 2;
        if are_too_many {
            self.count = half.max(1);
        }
        if half == 0 {
            return batch.pop();
        }
        let second = batch.split_off(half);
        self.failed.extend([second, batch]);
        None
    }

    pub(crate) fn succeeded(&mut self) {
        self.count = (self.count * 2).min(self.most);
    }
}
