//! The schedules that are planned by a clock, as long as their jobs are there.

use std::sync::{Arc, Weak};

/// Those that are over are swept out when there are twice as many as were left at the last sweep. So adding costs the
/// same however many there are.
pub(super) struct Watched<T> {
    all: Vec<Weak<T>>,
    sweep_at: usize,
}

/// So many are not worth a sweep.
const FEW: usize = 16;

impl<T> Watched<T> {
    pub(super) const fn new() -> Self {
        Self { all: Vec::new(), sweep_at: FEW }
    }

    pub(super) fn add(&mut self, one: &Arc<T>) {
        if self.all.len() >= self.sweep_at {
            self.sweep();
        }
        self.all.push(Arc::downgrade(one));
    }

    pub(super) fn sweep(&mut self) {
        self.all.retain(|one| one.strong_count() > 0);
        self.sweep_at = FEW.max(2 * self.all.len());
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn there(&self) -> Vec<Arc<T>> {
        self.all.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_many_sweeps_few_times() {
        let (mut watched, mut sweeps) = (Watched::new(), 0);
        let all: Vec<Arc<usize>> = (0..10_000).map(Arc::new).collect();
        for one in &all {
            let before = watched.sweep_at;
            watched.add(one);
            sweeps += u32::from(watched.sweep_at != before);
        }
        assert_eq!(watched.there().len(), 10_000);
        assert!((1..20).contains(&sweeps), "{sweeps} sweeps");
    }

    #[test]
    fn those_that_are_over_do_not_pile_up() {
        let mut watched = Watched::new();
        for one in 0..10_000 {
            watched.add(&Arc::new(one));
            assert!(watched.all.len() <= FEW);
        }
        watched.sweep();
        assert!(watched.is_empty());
    }
}
