//! All orders in which a few things can happen, one after the other: each run takes choices, and the next run takes the
//! next ones.

/// The choices of a run.
#[derive(Default)]
pub(crate) struct Schedule {
    /// What was chosen, and of how many.
    choices: Vec<(usize, usize)>,
    position: usize,
}

impl Schedule {
    /// One of so many.
    pub(crate) fn choose(&mut self, count: usize) -> usize {
        if self.position == self.choices.len() {
            self.choices.push((0, count));
        }
        let (choice, of) = self.choices[self.position];
        assert_eq!(of, count, "a run is not the same when it is made again");
        self.position += 1;
        choice
    }

    /// Goes on to the next run; false if there is none.
    pub(crate) fn next(&mut self) -> bool {
        self.choices.truncate(self.position);
        self.position = 0;
        while let Some((choice, of)) = self.choices.pop() {
            if choice + 1 < of {
                self.choices.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

#[test]
fn all_choices_are_made_once() {
    let (mut schedule, mut seen) = (Schedule::default(), Vec::new());
    loop {
        let first = schedule.choose(2);
        seen.push(if first == 0 { vec![first] } else { vec![first, schedule.choose(3)] });
        if !schedule.next() {
            break;
        }
    }
    assert_eq!(seen, [vec![0], vec![1, 0], vec![1, 1], vec![1, 2]]);
}
