//! Saves, loads, cancels and moves.

use super::{Hand, at, keyed, kinds, timer};
use crate::id::{self, TimerId};
use crate::store::{
    Begun, Counts, End, Loaded, Move, Near, NewTimer, Removal, Saved, Settled, State, Store, ToBegin,
};

impl<S: Store> Hand<S> {
    pub(super) async fn taken_keys(&self) {
        let first = keyed(5, 1, "k");
        assert_eq!(
            self.save([first.clone(), keyed(6, 2, "k"), keyed(7, 3, "other")]).await,
            [Saved::Stored, Saved::KeyTaken(first.id), Saved::Stored]
        );
        let replaces = NewTimer { replaces: true, ..keyed(8, 4, "k") };
        assert_eq!(self.save([replaces.clone()]).await, [Saved::Replaced(first.id.into())]);
        assert_eq!(self.cancel(first.id).await, Removal::NotFound);
        let owner = self.join().await;
        assert!(matches!(self.begin(owner, replaces.clone()).await, Begun::Yours(_)));
        let late = NewTimer { replaces: true, ..keyed(9, 5, "k") };
        assert_eq!(self.save([late]).await, [Saved::KeyTaken(replaces.id)]);
        assert_eq!(self.count().await, Counts { stored: 1, begun: 1, buried: 0 });
    }

    pub(super) async fn free_keys(&self) {
        let owner = self.join().await;
        self.save([keyed(1, 1, "k")]).await;
        self.cancel("k").await;
        assert_eq!(self.save([keyed(2, 2, "k")]).await, [Saved::Stored]);
        self.begin(owner, keyed(2, 2, "k")).await;
        let near = keyed(2, 2, "k").id.into();
        let done = self.settle(owner, near, 1, End::Done { next: None }).await;
        assert_eq!(done, Settled::Done(None));
        assert_eq!(self.save([keyed(3, 3, "k")]).await, [Saved::Stored]);
        self.begin(owner, keyed(3, 3, "k")).await;
        let bury = End::Bury { reason: "no".into(), next: None };
        self.settle(owner, keyed(3, 3, "k").id.into(), 1, bury).await;
        assert_eq!(self.save([keyed(4, 4, "k")]).await, [Saved::Stored]);
    }

    pub(super) async fn loads(&self) {
        let owner = self.join().await;
        let timers =
            [(-4, 9), (3, 2), (3, 1), (5, 1), (6, 7), (20, 1)].map(|(due, unique)| timer(due, unique));
        self.save(timers.clone()).await;
        let mut ids: Vec<TimerId> = timers.iter().map(|timer| timer.id).collect();
        ids.sort_unstable();
        let nears = |loaded: &Loaded| loaded.timers.iter().map(|near| near.id()).collect::<Vec<_>>();
        let first = self.load(owner, id::Place::FIRST, 10, 3).await;
        assert_eq!(nears(&first), ids[..3]);
        assert_eq!((first.end, first.next_due), (Near::from(ids[2]).place(), Some(at(5))));
        let rest = self.load(owner, first.end, 10, 3).await;
        assert_eq!(nears(&rest), ids[3..5]);
        assert_eq!((rest.end, rest.next_due), (id::Place::last_of(at(10)), Some(at(20))));
        let last = self.load(owner, rest.end, 100, 3).await;
        assert_eq!((nears(&last), last.next_due), (ids[5..].to_vec(), None));
        // It has written nothing.
        assert_eq!(self.load(owner, id::Place::FIRST, 10, 3).await, first);
        assert!(!first.lost);
    }

    pub(super) async fn kinds(&self) {
        let owner = self.join().await;
        let unknown = (0..50).map(|unique| NewTimer { kind: "unknown".into(), ..timer(1, unique) });
        self.save(unknown.chain([timer(2, 99)])).await;
        let (mut after, mut loaded) = (id::Place::FIRST, Vec::new());
        for _ in 0..100 {
            let load = self.load(owner, after, 10, 3).await;
            after = load.end;
            loaded.extend(load.timers);
        }
        assert_eq!(loaded, [Near::from(timer(2, 99).id)]);
        let unknown = NewTimer { kind: "unknown".into(), ..timer(1, 7) };
        assert_eq!(self.begin(owner, unknown).await, Begun::Gone, "also where it was moved, and not loaded");
        assert_eq!(self.count().await.stored, 51);
    }

    pub(super) async fn cancels(&self) {
        let owner = self.join().await;
        let (armed, begun) = (timer(1, 1), timer(1, 2));
        self.save([armed.clone(), begun.clone()]).await;
        let loaded = self.load(owner, id::Place::FIRST, 10, 9).await;
        assert_eq!(self.cancel(armed.id).await, Removal::Removed(armed.id.into()));
        assert_eq!(self.cancel(armed.id).await, Removal::NotFound);
        let ask = ToBegin { timers: loaded.timers, kinds: kinds() };
        let answers = self.store.begin(owner, ask).await.expect("begin");
        assert_eq!(answers[0], Begun::Gone);
        let Begun::Yours(yours) = &answers[1] else { panic!("{answers:?}") };
        assert_eq!((yours.timer.id(), yours.attempts, &yours.payload), (begun.id, 1, &begun.payload));
        assert_eq!(yours.state, State::Begun { epoch: owner.epoch, attempt: 1 });
        assert_eq!(self.cancel(begun.id).await, Removal::Running(begun.id, 1));
        assert_eq!(self.reschedule(begun.id, 99).await, Move::Running(begun.id, 1));
        assert_eq!(
            self.settle(owner, begun.id.into(), 1, End::Done { next: None }).await,
            Settled::Done(None)
        );
        assert_eq!(self.cancel(begun.id).await, Removal::NotFound);
    }

    pub(super) async fn moves(&self) {
        let owner = self.join().await;
        let new = keyed(5, 1, "k");
        self.save([new.clone()]).await;
        let (from, to) = (Near::from(new.id), Near::new(new.id, at(3)));
        assert_eq!(self.reschedule(new.id, 3).await, Move::Moved { from, to });
        assert_eq!(self.begin_at(owner, from).await, Begun::Gone);
        assert_eq!(self.reschedule("k", 4).await, Move::Moved { from: to, to: Near::new(new.id, at(4)) });
        let loaded = self.load(owner, id::Place::FIRST, 10, 9).await;
        assert_eq!(loaded.timers, [Near::new(new.id, at(4))]);
        assert!(matches!(self.begin_at(owner, loaded.timers[0]).await, Begun::Yours(_)));
        let again = End::Again { due: at(8), error: Some("no".into()), counts: true };
        let next = Near::new(new.id, at(8));
        assert_eq!(self.settle(owner, loaded.timers[0], 1, again).await, Settled::Done(Some(next)));
        let back = self.reschedule(new.id, 5).await;
        assert_eq!(back, Move::Moved { from: next, to: from });
        assert_eq!(self.cancel("k").await, Removal::Removed(from));
        assert_eq!(self.reschedule(new.id, 5).await, Move::NotFound);
    }
}
