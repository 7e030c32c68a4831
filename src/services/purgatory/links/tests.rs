//! Against naive lists.

use std::collections::HashMap;

use super::*;

/// Walks over a list in steps, and calls `between` after each.
fn walk(links: &mut Links<u32>, hash: u64, mut between: impl FnMut(&mut Links<u32>)) -> Vec<u32> {
    let (mut all, mut batch) = (Vec::new(), [None; BATCH]);
    let mut rest = links.begin(hash, &mut batch);
    loop {
        all.extend(batch.iter_mut().filter_map(Option::take).map(|(_, item)| item));
        between(links);
        let Some(left) = rest else { break };
        rest = links.go_on(hash, left, &mut batch);
    }
    all
}

/// A list for each hash, in order, and where each item stands.
#[derive(Default)]
struct Naive {
    lists: HashMap<u64, Vec<u32>>,
    numbers: HashMap<u32, u64>,
}

impl Naive {
    fn push(&mut self, links: &mut Links<u32>, hash: u64, item: u32) {
        self.numbers.insert(item, links.push(hash, item));
        self.lists.entry(hash).or_default().push(item);
    }

    fn remove(&mut self, links: &mut Links<u32>, hash: u64, nth: usize) {
        self.remove_untidily(links, hash, nth);
        links.tidy();
    }

    fn remove_untidily(&mut self, links: &mut Links<u32>, hash: u64, nth: usize) {
        let item = self.lists.get_mut(&hash).expect("it has items").remove(nth);
        assert_eq!(links.remove(hash, self.numbers.remove(&item).expect("it stands there")), Some(item));
    }

    fn compare(&self, links: &mut Links<u32>) {
        assert_eq!(links.len(), self.numbers.len());
        for (&hash, list) in &self.lists {
            match links.find(hash) {
                Found::None => assert_eq!(list, &[]),
                Found::One(item) => assert_eq!(list, &[item]),
                Found::Several => assert!(list.len() > 1),
            }
            assert_eq!(&walk(links, hash, |_| {}), list);
        }
        let (mut from, mut all) = (Some(Position::START), Vec::new());
        while let Some(position) = from {
            let mut batch = [None; BATCH];
            from = links.copy_all(position, &mut batch);
            all.extend(batch.into_iter().flatten());
        }
        let is_right = |&(hash, number, item): &(u64, u64, u32)| {
            self.numbers[&item] == number && self.lists[&hash].contains(&item)
        };
        assert!(all.iter().all(is_right));
        assert_eq!(all.len(), self.numbers.len());
    }
}

#[test]
fn they_do_what_naive_lists_do_as_items_come_and_go() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut links, mut naive) = (Links::new(), Naive::default());
    let mut next = 0;
    // In waves, so that nearly all leave now and then. Some lists never have more than an item or two.
    for round in 0..8_000 {
        let hashes = if random.bool() { 3 } else { 100 };
        let hash = random.u64(..hashes);
        let len = naive.lists.get(&hash).map_or(0, Vec::len);
        if random.usize(..100) < if round % 2_000 < 1_000 { 80 } else { 20 } {
            naive.push(&mut links, hash, next);
            next += 1;
        } else if len > 0 {
            naive.remove(&mut links, hash, random.usize(..len));
        }
        if round % 50 == 0 {
            naive.compare(&mut links);
        }
    }
    naive.compare(&mut links);
}

#[test]
fn a_walk_sees_all_that_stays_and_nothing_that_comes_meanwhile() {
    let (mut links, mut naive) = (Links::new(), Naive::default());
    (0..200).for_each(|item| naive.push(&mut links, 7, item));
    let mut next = 200;
    let seen = walk(&mut links, 7, |links| {
        // One in front, one behind, and a walk within.
        naive.remove(links, 7, 0);
        naive.remove(links, 7, 180);
        naive.push(links, 7, next);
        next += 1;
        assert_eq!(walk(links, 7, |_| {}), naive.lists[&7]);
    });
    assert!(seen.is_sorted() && seen.iter().all(|&item| item < 200));
    let stay = naive.lists[&7].iter().filter(|&&item| item < 200);
    assert!(stay.clone().count() > 100 && stay.clone().all(|item| seen.contains(item)));
    naive.compare(&mut links);
}

#[test]
fn a_walk_goes_on_where_it_was_after_empty_slots_have_been_given_back() {
    let (mut links, mut naive) = (Links::new(), Naive::default());
    (0..1_000).for_each(|item| naive.push(&mut links, 7, item));
    let mut is_first = true;
    let seen = walk(&mut links, 7, |links| {
        // All but the first of each fifty.
        if std::mem::take(&mut is_first) {
            let leave = |nth: &usize| !nth.is_multiple_of(50);
            (0..1_000).rev().filter(leave).for_each(|nth| naive.remove(links, 7, nth));
        }
    });
    let first = 0..u32::try_from(BATCH).expect("few");
    assert_eq!(seen, first.chain((50..1_000).step_by(50)).collect::<Vec<_>>());
    naive.compare(&mut links);
}

#[test]
fn a_walk_over_a_list_that_has_ended_does_not_go_on_in_the_next_one_under_its_hash() {
    let (mut links, mut naive) = (Links::new(), Naive::default());
    (0..20).for_each(|item| naive.push(&mut links, 7, item));
    let mut is_first = true;
    let seen = walk(&mut links, 7, |links| {
        if std::mem::take(&mut is_first) {
            (0..20).for_each(|_| naive.remove(links, 7, 0));
            (20..60).for_each(|item| naive.push(links, 7, item));
        }
    });
    assert_eq!(seen, (0..16).collect::<Vec<_>>());
    naive.compare(&mut links);
}

#[test]
fn a_walk_over_a_row_that_is_nearly_empty_comes_to_its_last_item() {
    const EMPTY: u32 = 5_000;
    let (mut links, mut naive) = (Links::new(), Naive::default());
    (0..EMPTY).for_each(|item| naive.push(&mut links, 7, item));
    // So many that the empty slots between them stay.
    (EMPTY..2 * EMPTY).for_each(|item| naive.push(&mut links, 7, item));
    (1..EMPTY).for_each(|_| naive.remove(&mut links, 7, 1));
    naive.compare(&mut links);
}

/// As the lists of a purgatory that is shut down.
#[test]
fn a_walk_over_all_lists_comes_to_its_end_though_the_table_is_nearly_empty() {
    let (mut links, mut naive) = (Links::new(), Naive::default());
    (0..10_000).for_each(|item| naive.push(&mut links, u64::from(item), item));
    (0..9_990).for_each(|hash| naive.remove_untidily(&mut links, hash, 0));
    naive.compare(&mut links);
}

#[test]
fn when_most_items_have_left_the_memory_is_given_back() {
    // In a list each, and all in one.
    for is_shared in [false, true] {
        let (mut links, mut naive) = (Links::new(), Naive::default());
        let hash = |item: u32| if is_shared { 7 } else { u64::from(item) };
        (0..10_000).for_each(|item| naive.push(&mut links, hash(item), item));
        naive.compare(&mut links);
        (5..10_000).for_each(|item| naive.remove(&mut links, hash(item), if is_shared { 5 } else { 0 }));
        assert!(links.lists.num_buckets() <= SMALL, "{}", links.lists.num_buckets());
        for list in &links.lists {
            if let Items::Row(row) = &list.items {
                assert!(row.room() <= SMALL, "{}", row.room());
            }
        }
        naive.compare(&mut links);
    }
}

#[test]
fn a_walk_over_all_lists_comes_to_its_end_also_if_the_table_grows_meanwhile() {
    for hash in 0..64 {
        let mut links = Links::new();
        (0..40).for_each(|item| _ = links.push(hash, item));
        let mut batch = [const { None }; BATCH];
        let mut from = links.copy_all(Position::START, &mut batch);
        assert!(from.is_some(), "it has come to the middle of that list");
        // Lists of two. One of them comes to the place of the first, and has not given out as many numbers.
        for other in 64..1_064 {
            (0..2).for_each(|item| _ = links.push(other, item));
        }
        while let Some(position) = from {
            from = links.copy_all(position, &mut batch);
        }
    }
}
