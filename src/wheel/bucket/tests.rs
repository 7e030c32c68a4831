use super::*;

fn pop_front(bucket: &mut Bucket) -> Option<Key> {
    pop_up_to(bucket, 1).pop()
}

fn pop_up_to(bucket: &mut Bucket, most: usize) -> Vec<Key> {
    let mut popped = Vec::new();
    bucket.pop_front(most, |positions| {
        popped.extend(positions.iter().filter(|key| !key.is_vacancy()));
        u32::try_from(popped.len()).expect("few")
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
    let mut bucket = Bucket::new(Kind::Finest);
    for index in [10, 11, 12, 13] {
        push(&mut bucket, key(index), Nanos(1));
    }
    for (index, position) in [(10, 0), (12, 2)] {
        assert_eq!(bucket.take(key(index), position), Some(()));
    }
    assert_eq!((bucket.len(), bucket.iter().collect::<Vec<_>>()), (2, vec![(1, key(11)), (3, key(13))]));
    assert_eq!([14, 15, 16].map(|index| push(&mut bucket, key(index), Nanos(1))), [2, 0, 4]);
    assert_eq!(pop_up_to(&mut bucket, 5), [15, 11, 14, 13, 16].map(key));
    assert!(bucket.is_empty());
}

#[test]
fn a_place_that_was_passed_while_it_was_vacant_is_not_taken() {
    let mut bucket = Bucket::new(Kind::Finest);
    for index in [10, 11, 12] {
        push(&mut bucket, key(index), Nanos(1));
    }
    for (index, position) in [(10, 0), (12, 2)] {
        assert_eq!(bucket.take(key(index), position), Some(()));
    }
    assert_eq!(pop_up_to(&mut bucket, 1), []);
    assert_eq!(push(&mut bucket, key(13), Nanos(1)), 3);
    assert_eq!(pop_up_to(&mut bucket, 4), [11, 13].map(key));
    assert!(bucket.is_empty());
}

#[test]
fn entries_are_taken_from_the_front_also_while_others_come_and_go() {
    let mut bucket = Bucket::new(Kind::Finest);
    for index in [10, 11, 12, 13] {
        push(&mut bucket, key(index), Nanos(1));
    }
    assert_eq!(pop_front(&mut bucket), Some(key(10)));
    assert_eq!(push(&mut bucket, key(14), Nanos(1)), 4);
    assert_eq!(bucket.take(key(12), 2), Some(()));
    assert_eq!(bucket.iter().collect::<Vec<_>>(), [(1, key(11)), (3, key(13)), (4, key(14))]);
    assert_eq!(pop_up_to(&mut bucket, 4), [11, 13, 14].map(key));
    assert_eq!(push(&mut bucket, key(15), Nanos(1)), 0);
}

#[test]
fn a_key_that_does_not_stand_there_is_not_taken() {
    let mut bucket = Bucket::new(Kind::Finest);
    assert_eq!(bucket.take(key(10), 0), None);
    push(&mut bucket, key(10), Nanos(1));
    assert_eq!(bucket.take(key(11), 0), None);
    assert_eq!(bucket.take(Key::new(10, 1), 0), None);
    assert_eq!(bucket.take(key(10), 1), None);
    assert_eq!(bucket.take(key(10), 0), Some(()));
    assert_eq!(bucket.take(key(10), 0), None);
}

#[test]
fn a_key_that_was_taken_from_the_front_is_not_taken_again() {
    let mut bucket = Bucket::new(Kind::Finest);
    for index in [10, 11, 12] {
        push(&mut bucket, key(index), Nanos(1));
    }
    assert_eq!(pop_front(&mut bucket), Some(key(10)));
    assert_eq!((bucket.get(0), bucket.take(key(10), 0)), (None, None));
    assert_eq!((bucket.get(1), bucket.take(key(11), 1)), (Some(key(11)), Some(())));
}

#[test]
fn several_keys_are_taken_from_the_front_in_order() {
    let mut bucket = Bucket::new(Kind::Finest);
    for index in 10..15 {
        push(&mut bucket, key(index), Nanos(1));
    }
    assert_eq!(pop_up_to(&mut bucket, 3), [10, 11, 12].map(key));
    assert_eq!(pop_up_to(&mut bucket, 3), [13, 14].map(key));
    assert!(bucket.is_empty() && pop_up_to(&mut bucket, 3).is_empty());
}

#[test]
fn a_bucket_waits_for_the_last_deadline_since_it_was_empty() {
    let mut bucket = Bucket::new(Kind::Finest);
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
    let mut bucket = Bucket::new(Kind::Finest);
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
        let mut bucket = Bucket::new(Kind::Finest);
        bucket.keys.reserve_exact(entries);
        for index in 0..u32::try_from(entries).expect("few") {
            push(&mut bucket, key(index), Nanos(1));
        }
        while pop_front(&mut bucket).is_some() {}
        assert_eq!(bucket.keys.capacity(), kept);
    }
}
