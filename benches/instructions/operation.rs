//! An operation: what makes it ready, what is counted, and what proves that it was done.

use std::fmt;

/// How often an operation is done while it is counted. What the counting adds is divided by it.
pub(crate) const REPETITIONS: u32 = 1_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// How many instructions it shall take at most.
    pub(crate) target: Option<f64>,
    /// Makes everything ready, and warm: what is counted has been done before.
    prepare: fn() -> Prepared,
}

impl Operation {
    pub(crate) const fn new(name: &'static str, prepare: fn() -> Prepared) -> Self {
        Self { name, target: None, prepare }
    }

    pub(crate) const fn with_target(self, target: f64) -> Self {
        Self { target: Some(target), ..self }
    }

    pub(crate) fn prepare(&self) -> Prepared {
        (self.prepare)()
    }

    pub(crate) fn do_uncounted(&self) {
        let mut prepared = self.prepare();
        prepared.run();
        prepared.assert_done();
    }
}

/// An operation that is ready to be done `REPETITIONS` times.
pub(crate) struct Prepared(Box<dyn Run>);

impl Prepared {
    pub(crate) fn new<S: 'static>(state: S, run: fn(&mut S), assert_done: fn(&S)) -> Self {
        Self(Box::new(Case { state, run, assert_done }))
    }

    /// What is counted.
    pub(crate) fn run(&mut self) {
        self.0.run();
    }

    /// Fails if what was counted is not what it is said to be.
    pub(crate) fn assert_done(&self) {
        self.0.assert_done();
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").finish_non_exhaustive()
    }
}

trait Run {
    fn run(&mut self);
    fn assert_done(&self);
}

struct Case<S> {
    state: S,
    run: fn(&mut S),
    assert_done: fn(&S),
}

impl<S> Run for Case<S> {
    fn run(&mut self) {
        (self.run)(&mut self.state);
    }

    fn assert_done(&self) {
        (self.assert_done)(&self.state);
    }
}
