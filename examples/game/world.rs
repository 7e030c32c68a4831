//! The world of the game, and a map that is compared with its events.

use std::collections::HashMap;
use std::error::Error;
use std::iter::repeat_with;
use std::time::Duration;

use hdrhistogram::Histogram;
use timingwheel::time::DelayQueue;
use timingwheel::time::delay_queue::Key;
use tokio::time::Instant;

use crate::next_due;

// Characters, their spells, and the effects of these.

pub(crate) struct Spell {
    /// Until the caster can cast it again.
    cooldown: Duration,
    /// For how long the target has its buff, unless that is refreshed or dispelled.
    lasts: Duration,
    ticks_every: Option<Duration>,
}

/// A shield, haste, a poison, and a burn. Their times are no whole frames, so that deadlines lie anywhere in a frame:
/// what is due a whole number of frames after a cast just misses that frame.
pub(crate) const SPELLS: [Spell; 4] = [
    Spell::new(1_210, 1_490, None),
    Spell::new(1_970, 790, None),
    Spell::new(310, 1_730, Some(410)),
    Spell::new(890, 1_010, Some(140)),
];

impl Spell {
    /// Of times in milliseconds.
    const fn new(cooldown: u64, lasts: u64, ticks_every: Option<u64>) -> Self {
        let ticks_every = match ticks_every {
            Some(every) => Some(Duration::from_millis(every)),
            None => None,
        };
        Self { cooldown: Duration::from_millis(cooldown), lasts: Duration::from_millis(lasts), ticks_every }
    }
}

/// How often a spell adds up on the same target.
const MOST_STACKS: u64 = 5;

/// An effect of one of [`SPELLS`] on a character.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Event {
    character: usize,
    spell: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    CooledDown,
    Ticks,
    Ends,
}

#[derive(Default)]
struct Character {
    /// By spell, as the buffs are.
    cools_down: [bool; SPELLS.len()],
    buffs: [Option<Buff>; SPELLS.len()],
}

struct Buff {
    end: Key,
    tick: Option<Key>,
    stacks: u64,
}

pub(crate) struct World {
    characters: Vec<Character>,
    queue: DelayQueue<Event>,
    pub(crate) books: Books,
    pub(crate) counts: Counts,
    /// How many events were pending at the most.
    pub(crate) most_pending: usize,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) cast: u64,
    pub(crate) refused: u64,
    pub(crate) cooled_down: u64,
    pub(crate) begun: u64,
    pub(crate) refreshed: u64,
    pub(crate) dispelled: u64,
    pub(crate) ended: u64,
    pub(crate) ticks: u64,
    pub(crate) damage: u64,
}

impl World {
    pub(crate) fn new(characters: usize, queue: DelayQueue<Event>, books: Books) -> Self {
        let characters = repeat_with(Character::default).take(characters).collect();
        Self { characters, queue, books, counts: Counts::default(), most_pending: 0 }
    }

    /// How many events are pending.
    pub(crate) fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Applies all that is due, in the order of the deadlines.
    pub(crate) fn apply_due(&mut self) -> Result<(), Box<dyn Error>> {
        self.most_pending = self.most_pending.max(self.pending());
        while let Some(expired) = next_due(&mut self.queue) {
            self.books.happens(*expired.get_ref(), expired.deadline())?;
            self.apply(*expired.get_ref(), expired.deadline());
        }
        Ok(())
    }

    fn apply(&mut self, event: Event, deadline: Instant) {
        let character = &mut self.characters[event.character];
        match event.kind {
            Kind::CooledDown => {
                self.counts.cooled_down += 1;
                character.cools_down[event.spell] = false;
            }
            Kind::Ends => {
                self.counts.ended += 1;
                let buff = character.buffs[event.spell].take();
                if let Some(tick) = buff.and_then(|buff| buff.tick) {
                    self.take_out(Event { kind: Kind::Ticks, ..event }, tick);
                }
            }
            Kind::Ticks => {
                self.counts.ticks += 1;
                if let Some(buff) = &mut character.buffs[event.spell]
                    && let Some(every) = SPELLS[event.spell].ticks_every
                {
                    self.counts.damage += buff.stacks;
                    // From the deadline, not from now, so that late frames do not add up.
                    let next = deadline + every;
                    buff.tick = Some(self.queue.insert_at(event, next));
                    self.books.begins(event, next);
                } else {
                    // It should have left with its buff.
                    self.books.unexpected += 1;
                }
            }
        }
    }

    /// Casts a spell, unless the caster has to wait for that.
    pub(crate) fn cast(&mut self, caster: usize, target: usize, spell: usize) {
        let now = Instant::now();
        let Spell { cooldown, lasts, ticks_every } = SPELLS[spell];
        let cooled_down = Event { character: caster, spell, kind: Kind::CooledDown };
        if self.characters[caster].cools_down[spell] {
            self.counts.refused += 1;
            return self.books.refuses(cooled_down);
        }
        self.counts.cast += 1;
        self.put_in(cooled_down, now + cooldown);
        self.characters[caster].cools_down[spell] = true;

        let ends = Event { character: target, spell, kind: Kind::Ends };
        if let Some(buff) = &mut self.characters[target].buffs[spell] {
            self.counts.refreshed += 1;
            buff.stacks = MOST_STACKS.min(buff.stacks + 1);
            self.queue.reset_at(&buff.end, now + lasts);
            self.books.is_moved(ends, now + lasts);
        } else {
            self.counts.begun += 1;
            let end = self.put_in(ends, now + lasts);
            let tick = ticks_every.map(|every| self.put_in(Event { kind: Kind::Ticks, ..ends }, now + every));
            self.characters[target].buffs[spell] = Some(Buff { end, tick, stacks: 1 });
        }
    }

    /// Takes all buffs from a character, which itself casts on.
    pub(crate) fn dispel(&mut self, character: usize) {
        for spell in 0..SPELLS.len() {
            if let Some(Buff { end, tick, stacks: _ }) = self.characters[character].buffs[spell].take() {
                self.counts.dispelled += 1;
                self.take_out(Event { character, spell, kind: Kind::Ends }, end);
                if let Some(tick) = tick {
                    self.take_out(Event { character, spell, kind: Kind::Ticks }, tick);
                }
            }
        }
    }

    fn put_in(&mut self, event: Event, deadline: Instant) -> Key {
        self.books.begins(event, deadline);
        self.queue.insert_at(event, deadline)
    }

    fn take_out(&mut self, event: Event, key: Key) {
        let taken_out = self.queue.try_remove(&key);
        self.books.is_taken_out(event, taken_out.map(|taken_out| taken_out.deadline()));
    }
}

// A plain map of the events that should happen, compared with those that did.

/// The tick of the global wheel. The queue tells what is due within one tick in any order.
const TICK: Duration = Duration::from_millis(1);

pub(crate) struct Books {
    due: HashMap<Event, Instant>,
    last: Instant,
    pub(crate) lateness: Histogram<u64>,
    pub(crate) out_of_order: u64,
    /// Events at another time than the map says, of any kind: happened, moved, taken out or refused.
    pub(crate) unexpected: u64,
}

impl Books {
    pub(crate) fn new(start: Instant) -> Result<Self, Box<dyn Error>> {
        let (due, lateness) = (HashMap::new(), Histogram::new(3)?);
        Ok(Self { due, last: start, lateness, out_of_order: 0, unexpected: 0 })
    }

    /// How many events should still happen.
    pub(crate) fn pending(&self) -> usize {
        self.due.len()
    }

    pub(crate) fn begins(&mut self, event: Event, deadline: Instant) {
        self.unexpected += u64::from(self.due.insert(event, deadline).is_some());
    }

    pub(crate) fn is_moved(&mut self, event: Event, deadline: Instant) {
        self.unexpected += u64::from(self.due.insert(event, deadline).is_none());
    }

    /// It has been taken out with this deadline, if it was there.
    pub(crate) fn is_taken_out(&mut self, event: Event, deadline: Option<Instant>) {
        let expected = self.due.remove(&event);
        self.unexpected += u64::from(expected.is_none() || expected != deadline);
    }

    pub(crate) fn happens(&mut self, event: Event, deadline: Instant) -> Result<(), Box<dyn Error>> {
        let now = Instant::now();
        // Not counted: a tick that is early leads to the next, which may be early again, and so on.
        if now < deadline {
            return Err(format!("something came {:?} before its time", deadline - now).into());
        }
        self.out_of_order += u64::from(deadline + TICK < self.last);
        self.unexpected += u64::from(self.due.remove(&event) != Some(deadline));
        self.last = deadline;
        self.lateness.record((now - deadline).as_nanos().try_into()?)?;
        Ok(())
    }

    /// It keeps something from being done.
    pub(crate) fn refuses(&mut self, event: Event) {
        self.unexpected += u64::from(!self.due.contains_key(&event));
    }
}
