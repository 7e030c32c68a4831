//! Series, and what is buried.

use super::{Hand, at, daily, keyed};
use crate::id::{self, TimerId};
use crate::store::{
    Begun, Counts, End, Ended, Near, NewTimer, Next, Page, Removal, Saved, Settled, State, Store, Taken,
};

impl<S: Store> Hand<S> {
    pub(super) async fn series(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), replaces: true, ..keyed(1, 1, "s") };
        self.save([new.clone()]).await;
        assert_eq!(
            self.save([NewTimer { id: TimerId::new(at(3), 3), ..new.clone() }]).await,
            [Saved::Kept(new.id)]
        );
        self.begin(owner, new.clone()).await;
        let mut then = daily(9);
        then.catching_up = Some((5, 2));
        let end = End::Done { next: Some(Next { due: at(100), series: then.clone() }) };
        let next = TimerId::new(at(100), 1);
        assert_eq!(self.settle(owner, new.id.into(), 1, end.clone()).await, Settled::Done(Some(next.into())));
        assert_eq!(self.settle(owner, new.id.into(), 1, end).await, Settled::Lost, "once");
        let listed = self.list(&Page::default()).await;
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].timer, listed[0].attempts), (next.into(), 0));
        assert_eq!((&listed[0].series, listed[0].key.as_deref()), (&Some(then), Some("s")));
        let Begun::Yours(_) = self.begin_at(owner, next.into()).await else { panic!("it stands") };
        let next = Some(Next { due: at(200), series: daily(9) });
        let bury = End::Bury { reason: "no".into(), next };
        let after = TimerId::new(at(200), 1);
        assert_eq!(
            self.settle(owner, TimerId::new(at(100), 1).into(), 1, bury).await,
            Settled::Done(Some(after.into())),
            "a series goes on over what is buried"
        );
        assert_eq!(self.cancel("s").await, Removal::Removed(after.into()));
        assert_eq!(self.count().await, Counts { stored: 0, begun: 0, buried: 1 });
    }

    pub(super) async fn replanned(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), replaces: true, ..keyed(1, 1, "s") };
        self.save([new.clone()]).await;
        self.begin(owner, new.clone()).await;
        let changed = NewTimer { series: Some(daily(10)), id: TimerId::new(at(50), 5), ..new.clone() };
        assert_eq!(self.save([changed]).await, [Saved::Updated(new.id)]);
        let end = |series| End::Done { next: Some(Next { due: at(100), series }) };
        let answer = self.settle(owner, new.id.into(), 1, end(daily(9))).await;
        assert_eq!(answer, Settled::Replanned(daily(10)));
        for end in [End::Done { next: None }, End::Bury { reason: "over".into(), next: None }] {
            let ended = Ended { timer: new.id.into(), attempt: 1, series: Some(daily(9)), end };
            let answer = self.settle_planned(owner, ended).await;
            assert_eq!(answer, Settled::Replanned(daily(10)), "also where the old rule is over");
        }
        assert_eq!(self.count().await, Counts { stored: 0, begun: 1, buried: 0 });
        let next = TimerId::new(at(100), 1);
        let answer = self.settle(owner, new.id.into(), 1, end(daily(10))).await;
        assert_eq!(answer, Settled::Done(Some(next.into())));
    }

    pub(super) async fn standings(&self) {
        let owner = self.join().await;
        let new = NewTimer { series: Some(daily(9)), ..keyed(1, 1, "s") };
        self.save([new.clone()]).await;
        self.begin(owner, new.clone()).await;
        let mut stands = daily(9);
        stands.catching_up = Some((5, 2));
        let again = |due| End::Again { due: at(due), error: None, counts: true };
        let ended = Ended { timer: new.id.into(), attempt: 1, series: Some(stands.clone()), end: again(3) };
        let near = Near::new(new.id, at(3));
        assert_eq!(self.settle_planned(owner, ended).await, Settled::Done(Some(near)));
        let Begun::Yours(yours) = self.begin_at(owner, near).await else { panic!("it stands") };
        assert_eq!(yours.series.as_ref(), Some(&stands));
        let changed = NewTimer { series: Some(daily(10)), replaces: true, ..new.clone() };
        assert_eq!(self.save([changed]).await, [Saved::Updated(new.id)]);
        let ended = Ended { timer: near, attempt: 2, series: Some(stands), end: again(4) };
        let near = Near::new(new.id, at(4));
        assert_eq!(self.settle_planned(owner, ended).await, Settled::Done(Some(near)));
        let Begun::Yours(yours) = self.begin_at(owner, near).await else { panic!("it stands") };
        assert_eq!(yours.series, Some(daily(10)), "that of another rule is not stored over the new one");
    }

    pub(super) async fn burials(&self) {
        let owner = self.join().await;
        let new = keyed(1, 1, "k");
        self.save([new.clone()]).await;
        for attempt in 1..=12 {
            self.begin(owner, new.clone()).await;
            let again = End::Again { due: at(1), error: Some(format!("error {attempt}")), counts: true };
            self.settle(owner, new.id.into(), attempt, again).await;
        }
        self.begin(owner, new.clone()).await;
        let bury = End::Bury { reason: "enough".into(), next: None };
        assert_eq!(self.settle(owner, new.id.into(), 13, bury).await, Settled::Done(None));
        assert!(self.load(owner, id::Place::FIRST, 10, 9).await.timers.is_empty());
        let page = Page { buried: true, ..Page::default() };
        let buried = self.list(&page).await;
        assert!(matches!(&buried[0].state, State::Buried(why) if why.reason == "enough"), "{buried:?}");
        assert_eq!((buried[0].attempts, &buried[0].payload), (13, &new.payload));
        let errors: Vec<&str> = buried[0].failures.iter().map(|failure| failure.error.as_str()).collect();
        assert_eq!((errors.len(), errors[8], errors[9]), (10, "error 12", "enough"));
        self.save([keyed(2, 2, "k")]).await;
        assert_eq!(self.unbury(new.id, Some(7)).await, Taken::KeyTaken(keyed(2, 2, "k").id));
        self.cancel("k").await;
        let again = Near::new(new.id, at(7));
        assert_eq!(self.unbury(new.id, Some(7)).await, Taken::Stored(again));
        let Begun::Yours(yours) = self.begin_at(owner, again).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 1);
        let bury = End::Bury { reason: "again".into(), next: None };
        self.settle(owner, again, 1, bury).await;
        assert_eq!(self.unbury(new.id, None).await, Taken::Deleted);
        assert_eq!(self.unbury(new.id, None).await, Taken::NotFound);
        assert_eq!(self.count().await, Counts::default());
    }
}
