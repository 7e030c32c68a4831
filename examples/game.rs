//! How do I run cooldowns and buffs in a game loop?
//!
//! `cargo run --release -p timingwheel-examples --example game`
//!
//! All future events are in one `DelayQueue`. Once a frame the loop takes out the due ones, without awaiting, in the order
//! of their deadlines. So one thread owns the world, and the wheel has one timer for all events. A late frame delays
//! events, and changes nothing else: a poison's next tick follows from the deadline of the last.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use timingwheel::TimingWheel;
use timingwheel::time::delay_queue::Expired;
use timingwheel::time::{DelayQueue, MissedTickBehavior};
use tokio::task::unconstrained;
use tokio::time::Instant;

/// The next event that is due. It does not wait for more.
fn next_due<T>(events: &mut DelayQueue<T>) -> Option<Expired<T>> {
    // Without tokio's budget for a task, because a frame wants all there are.
    unconstrained(events.next()).now_or_never().flatten()
}

const CHARACTERS: usize = 1_000;
const FRAME: Duration = Duration::from_micros(16_667);
const COOLDOWN: Duration = Duration::from_millis(310);
const POISON: Duration = Duration::from_millis(730);
const POISON_TICK: Duration = Duration::from_millis(140);

#[derive(Clone, Copy)]
enum Event {
    CooledDown { caster: usize },
    PoisonTicks { target: usize, until: Instant },
}

#[derive(Clone, Default)]
struct Character {
    cools_down: bool,
    damage: u64,
}

struct World {
    characters: Vec<Character>,
    events: DelayQueue<Event>,
    casts: u64,
}

impl World {
    /// A caster that has cooled down poisons a target.
    fn cast(&mut self, caster: usize, target: usize) {
        if std::mem::replace(&mut self.characters[caster].cools_down, true) {
            return;
        }
        self.casts += 1;
        self.events.insert(Event::CooledDown { caster }, COOLDOWN);
        let now = Instant::now();
        let (first, until) = (now + POISON_TICK, now + POISON);
        self.events.insert_at(Event::PoisonTicks { target, until }, first);
    }

    fn apply_due(&mut self) {
        while let Some(event) = next_due(&mut self.events) {
            match *event.get_ref() {
                Event::CooledDown { caster } => self.characters[caster].cools_down = false,
                Event::PoisonTicks { target, until } => {
                    self.characters[target].damage += 1;
                    // From the deadline, not from now, so that late frames do not add up.
                    let next = event.deadline() + POISON_TICK;
                    if next <= until {
                        self.events.insert_at(Event::PoisonTicks { target, until }, next);
                    }
                }
            }
        }
    }
}

#[tokio::main]
async fn main() {
    let wheel = TimingWheel::new();
    let mut world =
        World { characters: vec![Character::default(); CHARACTERS], events: wheel.delay_queue(), casts: 0 };
    let mut frames = wheel.interval(FRAME);
    // A long frame is followed by the next whole one, which makes up for all that was due meanwhile.
    frames.set_missed_tick_behavior(MissedTickBehavior::Skip);

    let (mut number, mut most_events) = (0, 0);
    while number < 120 || !world.events.is_empty() {
        frames.tick().await;
        world.apply_due();
        if number < 120 {
            (0..50).for_each(|_| world.cast(fastrand::usize(..CHARACTERS), fastrand::usize(..CHARACTERS)));
        }
        most_events = most_events.max(world.events.len());
        assert!(wheel.pending() <= 1, "all events share a timer");
        number += 1;
    }

    let damage: u64 = world.characters.iter().map(|character| character.damage).sum();
    println!("{number} frames, {} casts, up to {most_events} events pending, {damage} damage", world.casts);
    let ticks = u64::try_from(POISON.as_millis() / POISON_TICK.as_millis()).expect("five");
    assert_eq!(
        damage,
        world.casts * ticks,
        "each poison ticks the same number of times, however late a frame is"
    );
    println!("What it means: each poison ticked {ticks} times, however long its frames took.");
}
