//! When repeating jobs begin, and the forms that refuse them.

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedDelay, FixedRate, JobState, Jobs, JobsExt};
use tokio::time::sleep;

use crate::ms;
use crate::runs::Runs;

#[tokio::test(start_paused = true)]
async fn what_repeats_begins_at_once_or_at_its_start() {
    let wheel = TimingWheel::new();
    let jobs = Jobs::new(&wheel);
    let notes: [Runs; 9] = std::array::from_fn(|_| Runs::new());
    let note = |number: usize| {
        let runs = notes[number].clone();
        move || {
            runs.note();
            async {}
        }
    };
    let (start, period) = (notes[0].start + ms(7), ms(10));
    let handles = [
        wheel.run_every(period, note(0)),
        wheel.run_every_at(start, period, note(1)),
        wheel.try_run_every(period, note(2)).unwrap(),
        wheel.try_run_every_at(start, period, note(3)).unwrap(),
        wheel.run_by(FixedDelay::new(period), note(4)),
        wheel.run_by(FixedDelay::new(period).starting_at(start), note(5)),
        wheel.run_by(FixedRate::new(period).starting_after(ms(7)), note(6)),
    ];
    jobs.try_run_every("at once", period, note(7)).unwrap();
    jobs.try_run_every_at("later", start, period, note(8)).unwrap();
    assert_eq!(handles[0].state(), JobState::Running);
    sleep(ms(25)).await;
    let (at_once, later) = (vec![0, 10, 20], vec![7, 17]);
    let begins: Vec<bool> = notes.iter().map(|runs| runs.began() == at_once).collect();
    assert_eq!(begins, [true, false, true, false, true, false, false, true, false]);
    assert!(notes.iter().all(|runs| runs.began() == at_once || runs.began() == later));
}
