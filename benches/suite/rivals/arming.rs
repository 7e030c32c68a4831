//! Timers that never fire, as most in a server do: alone, and among many.

use std::pin::pin;

use timingwheel::TimingWheel;

use super::host::{ALTERNATIVE, Host, Pinned, Spent, TIMEOUT, Visit, assert_pending, each_rival, far, ours};
use super::paired::{self, Row, table};
use super::timers::Timer;
use crate::support::{Findings, Scale};

const OPERATIONS: usize = 50_000;
const PENDING: usize = 100_000;

struct Arming {
    scale: Scale,
    ours: Host<TimingWheel>,
    alone: Vec<Row>,
    among: Vec<Row>,
    replaced: Vec<Row>,
}

pub(super) fn run(scale: Scale) -> Findings {
    let mut arming =
        Arming { scale, ours: ours(), alone: Vec::new(), among: Vec::new(), replaced: Vec::new() };
    each_rival(&mut arming);
    let Arming { alone, among, replaced, .. } = arming;
    let alone =
        table("Create, first poll, drop, with nothing else pending", alone).about("alone, make and drop");
    let among =
        table("Create, first poll, drop, with 100,000 pending", among).about("among 100,000, make and drop");
    let replaced = table("Replace one of 100,000 at random", replaced).about("one of 100,000 replaced")
        .note(
            "In all three tables CPU time is that of the whole process until a timer made later has fired: async-io and \
             futures-timer queue what is to be done, and do it later or on a thread of their own. pingora-timeout keeps \
             a timer that was dropped until its time comes, shared by all that are due in the same 10 ms.",
        )
        .note(
            "The timers that come and go have a timeout of 300 s. With nothing else pending each of them is the next to \
             fire, for which tokio wakes its driver; of the 100,000 one is due after 200 s and the rest, like their \
             replacements, from 300 s to 800 s.",
        )
        .note(ALTERNATIVE);
    Findings { tables: vec![alone, among, replaced], ..Findings::default() }
}

impl Visit for Arming {
    fn visit<T: Timer>(&mut self, rival: &Host<T>) {
        let Self { scale, ours, .. } = self;
        let (scale, name) = (*scale, rival.name);
        let (operations, pending) = (scale.of(OPERATIONS), scale.of(PENDING));
        let row = |ours: &mut dyn FnMut() -> Spent, rival: &mut dyn FnMut() -> Spent| {
            paired::row(scale, name, operations, ours, rival)
        };
        let before = ours.timer.stats().armed;

        eprintln!("{name}: alone");
        let alone = row(&mut || come_and_go(ours, operations), &mut || come_and_go(rival, operations));

        eprintln!("{name}: among many");
        let (mut our_sleeps, mut rival_sleeps) = (ours.fill(pending), rival.fill(pending));
        let among = row(&mut || come_and_go(ours, operations), &mut || come_and_go(rival, operations));

        eprintln!("{name}: replaced");
        let replaced = row(&mut || replace(ours, &mut our_sleeps, operations), &mut || {
            replace(rival, &mut rival_sleeps, operations)
        });
        assert_eq!(our_sleeps.len(), ours.timer.pending(), "each of ours is pending");

        let armed = ours.timer.stats().armed - before;
        let expected = (3 * (scale.rounds() + 1) * operations + pending) as u64;
        assert!(armed >= expected, "only {armed} of {expected} timers reached the wheel");
        self.alone.push(alone);
        self.among.push(among);
        self.replaced.push(replaced);
    }
}

fn come_and_go<T: Timer>(host: &Host<T>, operations: usize) -> Spent {
    let ((), spent) = host.in_task(move |timer, cx| {
        (0..operations).for_each(|_| assert_pending(pin!(timer.sleep(TIMEOUT)), cx));
    });
    spent
}

fn replace<T: Timer>(host: &Host<T>, sleeps: &mut Vec<Pinned<T>>, operations: usize) -> Spent {
    let mut all = std::mem::take(sleeps);
    let (all, spent) = host.in_task(move |timer, cx| {
        for _ in 0..operations {
            // Not the first, which stays the next to fire.
            let chosen = fastrand::usize(1..all.len());
            let place = &mut all[chosen];
            place.set(timer.sleep(far()));
            assert_pending(place.as_mut(), cx);
        }
        all
    });
    *sleeps = all;
    spent
}
