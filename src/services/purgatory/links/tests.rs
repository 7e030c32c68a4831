//! Against naive lists.

use std::collections::HashMap;

use super::*;

/// Walks over a list in steps, and calls `between` after each.
fn walk(links: &mut Links<u32>, hash: u64, mut between: impl FnMut(&mut Links<u32>)) -> Vec<u32> {
    let (mut all, mut batch) = (Vec::new(), [None; BATCH]);
    let marks = links.begin(hash, &mut batch);
    let mut has_more = marks.is_some();
    loop {
        all.extend(batch.iter_mut().filter_map(Option::take));
        between(links);
        let Some(marks) = marks.filter(|_| has_more) else { break };
        has_more = links.go_on(hash, marks, &mut batch);
    }
    all.extend(batch.into_iter().flatten());
    all
}

/// A list for each hash, in order, and where each item stands.
#[derive(Default)]
struct Naive {
    lists: HashMap<u64, Vec<u32>>,
    places: HashMap<u32, usize>,
}

impl Naive {
    fn push(&mut self, links: &mut Links<u32>, hash: u64, item: u32) {
        self.places.insert(item, links.push(hash, item));
        self.lists.entry(hash).or_default().push(item);
    }

    fn remove(&mut self, links: &mut Links<u32>, hash: u64, nth: usize) {
        let item = self.lists.get_mut(&hash).expect("it has items").remove(nth);
        assert_eq!(links.remove(hash, self.places.remove(&item).expect("it stands there")), Some(item));
        links.tidy(|of, item, old, new| {
            assert!(self.lists[&of].contains(item));
            assert_eq!(self.places.insert(*item, new), Some(old));
        });
    }

    fn compare(&self, links: &mut Links<u32>) {
        assert_eq!(links.len(), self.places.len());
        for (&hash, list) in &self.lists {
            match links.find(hash) {
                Found::None => assert_eq!(list, &[]),
                Found::One(item) => assert_eq!(list, &[item]),
                Found::Several => assert!(list.len() > 1),
            }
            assert_eq!(&walk(links, hash, |_| {}), list);
        }
        let (mut from, mut all) = (Some(0), Vec::new());
        while let Some(index) = from {
            let mut batch = [None; BATCH];
            from = links.copy_all(index, &mut batch);
            all.extend(batch.into_iter().flatten());
        }
        assert!(all.iter().all(|(index, item)| self.places[item] == *index));
        assert_eq!(all.len(), self.places.len());
    }
}

#[test]
fn they_do_what_naive_lists_do_as_items_come_and_go() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut links, mut naive) = (Links::new(), Naive::default());
    let mut next = 0;
    // In waves, so that nearly all leave now and then.
    for round in 0..4_000 {
        let hash = random.u64(..3);
        let len = naive.lists.get(&hash).map_or(0, Vec::len);
        if random.usize(..100) < if round % 1_000 < 500 { 80 } else { 20 } {
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
    assert_eq!(links.marks, 0);
}

#[test]
fn when_most_items_have_left_the_memory_is_given_back() {
    let (mut links, mut naive) = (Links::new(), Naive::default());
    (0..10_000).for_each(|item| naive.push(&mut links, u64::from(item), item));
    (5..10_000).for_each(|hash| naive.remove(&mut links, hash, 0));
    assert!(links.nodes.capacity() <= SMALL && links.lists.capacity() <= SMALL, "{}", links.nodes.capacity());
    naive.compare(&mut links);
}
