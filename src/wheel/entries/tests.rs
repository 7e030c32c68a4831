use super::*;

fn pop_front(bucket: &mut Bucket) -> Option<Key> {
    pop_up_to(bucket, 1).pop()
}

fn pop_up_to(bucket: &mut Bucket, most: usize) -> Vec<Key> {
    let mut popped = Vec::new();
    bucket.take_first(most, |positions| {
        popped.extend(positions.iter().filter(|key| !key.is_vacancy()));
        popped.len()
    });
    popped
}

fn push(bucket: &mut Bucket, key: Key, deadline: Nanos) -> u32 {
    let position = bucket.push(key);
    bucket.wait_for(deadline);
    position
}

fn key(index: u32) -> Key {
    Key::new(index, 0)
}

/// A level has very many.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_bucket_takes_48_bytes() {
    assert_eq!(size_of::<Bucket>(), 48);
}

#[test]
fn who_comes_takes_the_place_of_who_left_last() {
    let mut bucket = Bucket::new(0);
    for index in [10, 11, 12, 13] {
        push(&mut bucket, key(index), Nanos(1));
    }
    for (index, position) in [(10, 0), (12, 2)] {
        assert!(bucket.take(key(index), position));
    }
    assert_eq!((bucket.len(), bucket.iter().collect::<Vec<_>>()), (2, vec![(1, key(11)), (3, key(13))]));
    assert_eq!([14, 15, 16].map(|index| push(&mut bucket, key(index), Nanos(1))), [2, 0, 4]);
    assert_eq!(pop_up_to(&mut bucket, 5), [15, 11, 14, 13, 16].map(key));
    assert!(bucket.is_empty());
}

#[test]
fn a_place_that_was_passed_while_it_was_vacant_is_not_taken() {
    let mut bucket = Bucket::new(0);
    for index in [10, 11, 12] {
        push(&mut bucket, key(index), Nanos(1));
    }
    for (index, position) in [(10, 0), (12, 2)] {
        assert!(bucket.take(key(index), position));
    }
    assert_eq!(pop_up_to(&mut bucket, 1), []);
    assert_eq!(push(&mut bucket, key(13), Nanos(1)), 3);
    assert_eq!(pop_up_to(&mut bucket, 4), [11, 13].map(key));
    assert!(bucket.is_empty());
}

#[test]
fn entries_are_taken_from_the_front_also_while_others_come_and_go() {
    let mut bucket = Bucket::new(0);
    for index in [10, 11, 12, 13] {
        push(&mut bucket, key(index), Nanos(1));
    }
    assert_eq!(pop_front(&mut bucket), Some(key(10)));
    assert_eq!(push(&mut bucket, key(14), Nanos(1)), 4);
    assert!(bucket.take(key(12), 2));
    assert_eq!(bucket.iter().collect::<Vec<_>>(), [(1, key(11)), (3, key(13)), (4, key(14))]);
    assert_eq!(pop_up_to(&mut bucket, 4), [11, 13, 14].map(key));
    assert_eq!(push(&mut bucket, key(15), Nanos(1)), 0);
}

#[test]
fn a_key_that_does_not_stand_there_is_not_taken() {
    let mut bucket = Bucket::new(0);
    assert!(!bucket.take(key(10), 0));
    push(&mut bucket, key(10), Nanos(1));
    assert!(!bucket.take(key(11), 0));
    assert!(!bucket.take(Key::new(10, 1), 0));
    assert!(!bucket.take(key(10), 1));
    assert!(bucket.take(key(10), 0));
    assert!(!bucket.take(key(10), 0));
}

#[test]
fn a_key_that_was_taken_from_the_front_is_not_taken_again() {
    let mut bucket = Bucket::new(0);
    for index in [10, 11, 12] {
        push(&mut bucket, key(index), Nanos(1));
    }
    assert_eq!(pop_front(&mut bucket), Some(key(10)));
    assert_eq!((bucket.holds(key(10), 0), bucket.take(key(10), 0)), (false, false));
    assert_eq!((bucket.holds(key(11), 1), bucket.take(key(11), 1)), (true, true));
}

#[test]
fn several_keys_are_taken_from_the_front_in_order() {
    let mut bucket = Bucket::new(0);
    for index in 10..15 {
        push(&mut bucket, key(index), Nanos(1));
    }
    assert_eq!(pop_up_to(&mut bucket, 3), [10, 11, 12].map(key));
    assert_eq!(pop_up_to(&mut bucket, 3), [13, 14].map(key));
    assert!(bucket.is_empty() && pop_up_to(&mut bucket, 3).is_empty());
}

#[test]
fn a_bucket_waits_for_the_last_deadline_since_it_was_empty() {
    let mut bucket = Bucket::new(0);
    for (deadline, last) in [(5, 5), (7, 7), (6, 7)] {
        push(&mut bucket, key(0), Nanos(deadline));
        assert_eq!(bucket.expiration, Nanos(last));
    }
    while pop_front(&mut bucket).is_some() {}
    push(&mut bucket, key(0), Nanos(3));
    assert_eq!(bucket.expiration, Nanos(3));
}

#[test]
fn the_only_entry_left_is_the_last_also_after_others_were_taken_from_the_front() {
    let mut bucket = Bucket::new(0);
    for deadline in [5, 9] {
        push(&mut bucket, key(0), Nanos(deadline));
    }
    assert_eq!(bucket.wait_for(Nanos(4)), Nanos(9));
    pop_front(&mut bucket);
    assert_eq!(bucket.wait_for(Nanos(7)), Nanos(7));
}

#[test]
fn an_emptied_bucket_keeps_little_memory() {
    for (entries, kept) in [(KEPT_CAPACITY, KEPT_CAPACITY), (KEPT_CAPACITY + 1, 0), (1_000, 0)] {
        let mut bucket = Bucket::new(0);
        bucket.keys.reserve_exact(entries);
        for index in 0..u32::try_from(entries).expect("few") {
            push(&mut bucket, key(index), Nanos(1));
        }
        while pop_front(&mut bucket).is_some() {}
        assert_eq!(bucket.keys.capacity(), kept);
    }
}

fn insert_entry(entries: &mut Entries<usize>, n: usize) -> Key {
    let link = Link { deadline: Nanos(1), place: Place::new(BucketId(0), 0) };
    entries.insert_by(n, |_| (link, ())).0
}

#[test]
fn an_index_that_is_used_again_makes_another_key() {
    let mut entries = Entries::new();
    let stale = insert_entry(&mut entries, 1);
    entries.remove(stale.index());
    let fresh = insert_entry(&mut entries, 2);
    assert_eq!(stale.index(), fresh.index());
    assert_ne!(stale, fresh);
}

#[test]
fn memory_is_given_back_page_by_page_whether_the_oldest_entries_leave_first_or_the_newest() {
    for newest_first in [false, true] {
        let mut entries = Entries::new();
        let mut keys: Vec<Key> = (0..10 * PAGE_LEN).map(|n| insert_entry(&mut entries, n)).collect();
        assert_eq!(entries.capacity(), 10 * PAGE_LEN);
        if newest_first {
            keys.reverse();
        }
        for key in keys {
            entries.remove(key.index());
            assert!(entries.capacity() <= entries.len() + 2 * PAGE_LEN, "{} are left", entries.len());
        }
    }
}

#[test]
fn entries_round_a_border_of_a_page_do_not_allocate_each_time() {
    let mut entries = Entries::new();
    let keys: Vec<Key> = (0..PAGE_LEN).map(|n| insert_entry(&mut entries, n)).collect();
    let mut beyond = insert_entry(&mut entries, PAGE_LEN);
    let capacity = entries.capacity();
    // However few are left of the page before it.
    for key in &keys[1..] {
        entries.remove(beyond.index());
        assert_eq!(entries.capacity(), capacity, "{} left", entries.len());
        beyond = insert_entry(&mut entries, PAGE_LEN);
        entries.remove(key.index());
    }
}

#[test]
fn the_only_free_place_of_a_page_is_filled_at_once_and_a_page_with_two_waits_its_turn() {
    let mut entries = Entries::new();
    let keys: Vec<Key> = (0..2 * PAGE_LEN + 9).map(|n| insert_entry(&mut entries, n)).collect();
    entries.remove(keys[5].index());
    assert_eq!(insert_entry(&mut entries, 5).index(), keys[5].index());
    for of_a_page in [0, 1] {
        entries.remove(keys[of_a_page].index());
    }
    let next = 2 * PAGE_LEN + 9;
    assert_eq!(insert_entry(&mut entries, 0).index() as usize, next);
}

#[test]
fn a_few_entries_take_a_few_places() {
    let mut entries = Entries::new();
    insert_entry(&mut entries, 0);
    assert!(entries.capacity() <= 8, "{}", entries.capacity());
}

#[test]
fn there_are_as_many_indices_as_is_said_and_the_last_one_is_none() {
    assert_eq!(MAX_ENTRIES, 4_294_966_272);
    let last = join(MAX_PAGES - 1, PAGE_LEN - 1);
    assert_eq!(last as usize, MAX_ENTRIES - 1);
    assert!(!Key::new(last, 0).is_vacancy());
}

#[test]
fn keys_and_places_are_printed_by_their_numbers() {
    assert_eq!(format!("{:?}", Key::new(3, 7)), "Key(3 of insertion 7)");
    assert_eq!(format!("{:?}", Place::new(BucketId(3), 7)), "BucketId(3)[7]");
}
