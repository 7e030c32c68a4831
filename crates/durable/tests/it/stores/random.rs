//! Random calls, compared with a model.

use std::collections::BTreeSet;
use std::env;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;

use timingwheel_durable::store::{
    Ask, Change, Ended, Kinds, Near, NewTimer, Owner, Page, Put, Series, Settled, State, Store, Stored,
    ToBegin, Which,
};
use timingwheel_durable::{Missed, Place, TimerId};

use super::model::{Model, who};
use super::{Home, at, timeless};

const CALLS: usize = 150;

/// So a store that waits, as for a database, has something to do meanwhile.
const AT_A_TIME: usize = 4;

/// Few, so that they meet.
const KEYS: [&str; 3] = ["a", "b", "c"];
const KINDS: [&str; 3] = ["one", "two", "three"];
fn all_kinds() -> Kinds {
    Arc::new(KINDS.map(str::to_owned).into())
}

const RULES: [&str; 2] = ["cron 0 9 * * * in UTC", "cron 0 10 * * * in UTC"];

/// Makes random calls, and compares each answer and all stored timers with a model.
///
/// # Panics
/// If something differs.
pub(super) async fn calls_are_answered_as_by_a_plain_model<P: Home>(make: impl Fn() -> P) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seeds = match number("CONFORMANCE_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("CONFORMANCE_RUNS").unwrap_or(8),
    };
    let runs = seeds.map(|seed| {
        let place = make();
        async move {
            let run = AssertUnwindSafe(async { Run::new(seed, place).await.go().await });
            if let Err(panic) = run.catch_unwind().await {
                eprintln!("CONFORMANCE_SEED={seed} makes these calls again");
                resume_unwind(panic);
            }
        }
    });
    stream::iter(runs).buffer_unordered(AT_A_TIME).collect::<()>().await;
}

struct Run<P: Home> {
    random: fastrand::Rng,
    place: P,
    store: Option<P::Store>,
    model: Model,
    /// The last is the present one.
    owners: Vec<Owner>,
    unique: u64,
}

impl<P: Home> Run<P> {
    async fn new(seed: u64, mut place: P) -> Self {
        let store = Some(place.open().await);
        let random = fastrand::Rng::with_seed(seed);
        let mut run = Self { random, place, store, model: Model::default(), owners: Vec::new(), unique: 0 };
        run.join().await;
        run
    }

    fn store(&self) -> &P::Store {
        self.store.as_ref().expect("an open store")
    }

    async fn join(&mut self) {
        let owner = self.store().join(Duration::from_secs(30), all_kinds()).await.expect("join");
        self.model.join(owner, &all_kinds());
        self.owners.push(owner);
    }

    async fn go(mut self) {
        for _ in 0..CALLS {
            match self.random.u8(..100) {
                0..30 => self.save().await,
                30..40 => self.load().await,
                40..58 => self.begin().await,
                58..74 => self.settle().await,
                74..80 => self.cancel().await,
                80..82 => self.get().await,
                82..88 => self.reschedule().await,
                88..92 => self.unbury().await,
                92..95 => self.join().await,
                95..97 => self.leave().await,
                _ => {
                    drop(self.store.take());
                    self.store = Some(self.place.open().await);
                }
            }
            self.compare().await;
        }
    }

    /// Everything, and some pages.
    async fn compare(&mut self) {
        assert_eq!(self.store().count().await.expect("count"), self.model.db.count());
        for buried in [false, true] {
            let whole = Page { buried, limit: usize::MAX, ..Page::default() };
            let kind = self.random.bool().then(|| KINDS[self.random.usize(..3)].to_owned());
            let after = self.model.any(&mut self.random).map_or(Place::FIRST, |timer| timer.timer.place());
            let only_series = self.random.bool();
            let some = Page { buried, kind, only_series, after, limit: self.random.usize(..4) };
            // Some page of one of the two.
            let pages = if self.random.bool() { vec![whole, some] } else { vec![whole] };
            for page in pages {
                let listed = self.store().list(page.clone()).await.expect("list");
                let listed: Vec<Stored> = listed.into_iter().map(timeless).collect();
                assert_eq!(listed, self.model.db.list(&page), "{page:?}");
            }
        }
    }

    /// Mostly the present one.
    fn owner(&mut self) -> Owner {
        let last = self.owners.len() - 1;
        let index = if self.random.u8(..10) == 0 { self.random.usize(..=last) } else { last };
        self.owners[index]
    }

    /// Near each other, so that they meet, and some before 1970.
    fn due(&mut self) -> Timestamp {
        at(self.random.i64(-3..20))
    }

    fn key(&mut self) -> String {
        KEYS[self.random.usize(..3)].to_owned()
    }

    fn series(&mut self) -> Series {
        let missed = if self.random.u8(..4) == 0 { Missed::none() } else { Missed::once() };
        let mut series = Series::new(RULES[self.random.usize(..2)].to_owned(), missed);
        if self.random.bool() {
            series = series.planned_after(self.due());
        }
        if self.random.bool() {
            let (left, until) = (self.random.u32(..), self.random.i64(..));
            let standing = format!("{}; {left} more up to {until}", series.standing());
            series = Series::from_texts(series.rule, &missed.to_string(), &standing).expect("a series");
        }
        series
    }

    async fn save(&mut self) {
        let timers: Vec<NewTimer> = (0..self.random.usize(..4))
            .map(|_| {
                self.unique += 1;
                let series = (self.random.u8(..3) == 0).then(|| self.series());
                let has_key = series.is_some() || self.random.bool();
                let is_over = series.is_some() && self.random.u8(..6) == 0;
                NewTimer {
                    id: TimerId::new(self.due(), self.unique),
                    kind: KINDS[self.random.usize(..3)].to_owned(),
                    payload: vec![b'0' + self.random.u8(..2)],
                    key: has_key.then(|| self.key()),
                    series,
                    replaces: is_over || self.random.bool(),
                    is_over,
                }
            })
            .collect();
        let answers = self.store().save(timers.clone()).await.expect("save");
        assert_eq!(Some(answers), self.model.db.save(&timers));
    }

    /// Mostly all.
    fn kinds(&mut self) -> Kinds {
        let kinds = KINDS.iter().filter(|_| self.random.u8(..5) > 0);
        Arc::new(kinds.map(ToString::to_string).collect::<BTreeSet<String>>())
    }

    async fn load(&mut self) {
        let after = if self.random.bool() { Place::FIRST } else { Place::last_of(self.due()) };
        let (until, limit) = (self.due(), self.random.usize(1..6));
        let ask = Ask { after, until, limit, kinds: self.kinds() };
        let owner = self.owner();
        let loaded = self.store().load(owner, ask.clone()).await.expect("load");
        self.model.check_load(owner, &ask, &loaded);
    }

    async fn begin(&mut self) {
        let mut nears = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            if let Some(timer) =
                self.model.any(&mut self.random).filter(|timer| !matches!(timer.state, State::Buried(_)))
            {
                let near = timer.timer;
                // Sometimes where it does not stand.
                let elsewhere = self.random.u8(..8) == 0;
                let near = if elsewhere { Near::new(near.id(), self.due()) } else { near };
                if !nears.contains(&near) {
                    nears.push(near);
                }
            }
        }
        let owner = self.owner();
        let ask = ToBegin { timers: nears, kinds: self.kinds() };
        let answers = self.store().begin(owner, ask.clone()).await.expect("begin");
        assert_eq!(answers, self.model.db.begin(who(owner), &ask));
    }

    async fn settle(&mut self) {
        let Some(timer) = self.model.any(&mut self.random) else { return };
        let attempt = match timer.state {
            State::Begun { attempt, .. } if self.random.u8(..8) > 0 => attempt,
            State::Stored if self.random.bool() => 0,
            _ => timer.attempts + 1,
        };
        self.unique += 1;
        // After a wrong clock it has another number.
        let number = if self.random.u8(..4) == 0 { self.unique } else { timer.timer.id().unique() };
        let next = (self.random.bool() && timer.series.is_some()).then(|| Put {
            timer: TimerId::new(at(self.random.i64(20..40)), number).into(),
            series: Some(self.series()),
            attempts: 0,
            error: None,
        });
        let change = match (self.random.u8(..8), next) {
            (0..2, _) => Change::Delete,
            (2..4, Some(next)) => Change::Put(next),
            // Only a timer that has begun is buried.
            (4..6, next) if attempt > 0 => {
                Change::Bury { reason: "enough".into(), was_called: self.random.bool(), next }
            }
            _ => Change::Put(Put {
                timer: Near::new(timer.timer.id(), self.due()),
                series: timer.series.as_ref().map(|_| self.series()),
                attempts: if attempt > 0 && self.random.bool() { attempt } else { attempt.saturating_sub(1) },
                error: (attempt > 0 && self.random.bool()).then(|| "no".to_owned()),
            }),
        };
        // Sometimes by what it was before.
        let version = if self.random.u8(..8) == 0 { timer.version + 1 } else { timer.version };
        let (owner, ended) = (self.owner(), Ended { timer: timer.timer, attempt, version, change });
        let mut answers = self.store().settle(owner, vec![ended.clone()]).await.expect("settle");
        if let Some(Settled::Changed(stored)) = answers.first_mut() {
            **stored = timeless((**stored).clone());
        }
        assert_eq!(answers, [self.model.db.settle_one(who(owner), ended)]);
    }

    fn which(&mut self) -> Which {
        let some = self.model.any(&mut self.random).map(|timer| timer.timer.id());
        match some {
            Some(id) if self.random.bool() => Which::Id(id),
            _ => Which::Key(self.key()),
        }
    }

    async fn get(&mut self) {
        let which = self.which();
        let found = self.store().get(which.clone()).await.expect("get");
        assert_eq!(found.map(timeless), self.model.db.get(&which));
    }

    async fn cancel(&mut self) {
        let which = self.which();
        let answer = self.store().cancel(which.clone()).await.expect("cancel");
        assert_eq!(Some(answer), self.model.db.cancel(&which));
    }

    async fn reschedule(&mut self) {
        let (which, due) = (self.which(), self.due());
        let answer = self.store().reschedule(which.clone(), due).await.expect("reschedule");
        assert_eq!(Some(answer), self.model.db.reschedule(&which, due));
    }

    async fn unbury(&mut self) {
        let Some(id) = self.model.any(&mut self.random).map(|timer| timer.timer.id()) else { return };
        let due = self.random.bool().then(|| self.due());
        self.unique += 1;
        let number = self.unique;
        let answer = self.store().unbury(id, due, number).await.expect("unbury");
        assert_eq!(Some(answer), self.model.db.unbury(id, due, number));
    }

    async fn leave(&mut self) {
        let owner = self.owner();
        let left = self.store().leave(owner).await.expect("leave");
        assert_eq!(left, self.model.db.leave(who(owner)));
        // What has no owner is begun by nobody.
        if !self.model.has_owner() {
            self.join().await;
        }
    }
}
