//! Attempts, and whose they are.

use super::{Hand, at, daily, keyed, timer};
use crate::id;
use crate::store::{Begun, Counts, End, Move, Near, NewTimer, Next, Removal, Saved, Settled, Store};

impl<S: Store> Hand<S> {
    pub(super) async fn attempts(&self) {
        let new = timer(1, 1);
        self.save([new.clone()]).await;
        for attempt in 1..4 {
            let owner = self.join().await;
            let loaded = self.load(owner, id::Place::FIRST, 10, 9).await;
            assert_eq!(loaded.timers, [Near::from(new.id)], "begun by an earlier owner");
            let Begun::Yours(yours) = self.begin(owner, new.clone()).await else { panic!("it stands") };
            assert_eq!(yours.attempts, attempt);
            assert!(self.load(owner, id::Place::FIRST, 10, 9).await.timers.is_empty(), "begun by this one");
        }
    }

    pub(super) async fn begins_again(&self) {
        let owner = self.join().await;
        let new = timer(1, 1);
        self.save([new.clone()]).await;
        let again = End::Again { due: at(1), error: None, counts: true };
        for attempt in 1..4 {
            let first = self.begin(owner, new.clone()).await;
            assert!(matches!(&first, Begun::Yours(yours) if yours.attempts == attempt), "{first:?}");
            // As if the answer had been lost.
            assert_eq!(self.begin(owner, new.clone()).await, first);
            let settled = self.settle(owner, new.id.into(), attempt, again.clone()).await;
            assert_eq!(settled, Settled::Done(Some(new.id.into())), "attempt {attempt}");
        }
        let next = self.join().await;
        self.begin(next, new.clone()).await;
        let third = self.join().await;
        let Begun::Yours(yours) = self.begin(third, new).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 5, "another owner's begin counts");
    }

    pub(super) async fn fences(&self) {
        let old = self.join().await;
        let (one, two) = (timer(1, 1), timer(2, 2));
        self.save([one.clone(), two.clone()]).await;
        self.begin(old, one.clone()).await;
        self.begin(old, two.clone()).await;
        let new = self.join().await;
        let done = End::Done { next: None };
        assert_eq!(self.settle(old, one.id.into(), 1, done.clone()).await, Settled::Lost, "followed");
        self.begin(new, one.clone()).await;
        assert_eq!(self.settle(old, one.id.into(), 1, done.clone()).await, Settled::Lost, "begun anew");
        assert_eq!(
            self.settle(old, one.id.into(), 2, done.clone()).await,
            Settled::Lost,
            "another's attempt"
        );
        assert_eq!(
            self.settle(new, one.id.into(), 1, done.clone()).await,
            Settled::Lost,
            "an attempt before"
        );
        assert_eq!(self.settle(new, two.id.into(), 1, done.clone()).await, Settled::Lost, "not begun");
        assert!(self.load(old, id::Place::FIRST, 10, 9).await.lost);
        assert_eq!(self.begin(old, two).await, Begun::Lost);
        assert_eq!(self.store.leave(old).await.expect("leave"), 0);
        assert_eq!(self.settle(new, one.id.into(), 2, done).await, Settled::Done(None));
    }

    pub(super) async fn leaves(&self) {
        let owner = self.join().await;
        let (one, two) = (timer(1, 1), timer(2, 2));
        self.save([one.clone(), two]).await;
        self.begin(owner, one.clone()).await;
        assert_eq!(self.store.leave(owner).await.expect("leave"), 1);
        assert_eq!(self.count().await, Counts { stored: 2, begun: 0, buried: 0 });
        assert_eq!(self.settle(owner, one.id.into(), 1, End::Done { next: None }).await, Settled::Lost);
        let next = self.join().await;
        let Begun::Yours(yours) = self.begin(next, one).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 2);
    }

    pub(super) async fn dead_attempts(&self) {
        let dead = self.join().await;
        let timers = [keyed(1, 1, "cancelled"), keyed(1, 2, "moved"), keyed(1, 3, "replaced")];
        self.save(timers.clone()).await;
        for timer in &timers {
            self.begin(dead, timer.clone()).await;
        }
        let owner = self.join().await;
        let [cancelled, moved, replaced] = timers.map(|timer| Near::from(timer.id));
        assert_eq!(self.cancel("cancelled").await, Removal::Removed(cancelled));
        let to = Near::new(moved.id(), at(4));
        assert_eq!(self.reschedule("moved", 4).await, Move::Moved { from: moved, to });
        let Begun::Yours(yours) = self.begin_at(owner, to).await else { panic!("it stands") };
        assert_eq!(yours.attempts, 2, "the attempt counts");
        let replaces = NewTimer { replaces: true, ..keyed(5, 5, "replaced") };
        assert_eq!(self.save([replaces]).await, [Saved::Replaced(replaced)]);
        assert_eq!(self.count().await, Counts { stored: 1, begun: 1, buried: 0 });
    }

    pub(super) async fn endings(&self) {
        let owner = self.join().await;
        let series = NewTimer { series: Some(daily(9)), ..keyed(1, 1, "series") };
        let (retried, dies) = (timer(1, 2), timer(1, 3));
        self.save([series.clone(), retried.clone(), dies.clone()]).await;
        for timer in [&series, &retried, &dies] {
            self.begin(owner, timer.clone()).await;
            assert_eq!(self.cancel(timer.id).await, Removal::Running(timer.id, 1));
        }
        let next = Some(Next { due: at(9), series: daily(9) });
        assert_eq!(self.settle(owner, series.id.into(), 1, End::Done { next }).await, Settled::Done(None));
        let again = End::Again { due: at(9), error: None, counts: true };
        assert_eq!(self.settle(owner, retried.id.into(), 1, again).await, Settled::Done(None));
        let other = self.join().await;
        let Begun::Yours(yours) = self.begin(other, dies).await else { panic!("it is attempted again") };
        assert!(yours.ending);
        assert_eq!(self.count().await, Counts { stored: 0, begun: 1, buried: 0 });
    }
}
