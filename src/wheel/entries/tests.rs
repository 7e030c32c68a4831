use super::*;
use crate::wheel::place::BucketId;

fn insert(entries: &mut Entries<usize>, n: usize) -> Key {
    let vacant = entries.vacant();
    let key = vacant.key();
    vacant.insert(n, Link { deadline: Nanos(1), place: Place::new(BucketId(0), 0) });
    key
}

#[test]
fn an_index_that_is_used_again_makes_another_key() {
    let mut entries = Entries::new();
    let stale = insert(&mut entries, 1);
    entries.remove(stale.index());
    let fresh = insert(&mut entries, 2);
    assert_eq!(stale.index(), fresh.index());
    assert_ne!(stale, fresh);
}

#[test]
fn memory_is_given_back_page_by_page() {
    let mut entries = Entries::new();
    let keys: Vec<Key> = (0..10 * PAGE_LEN).map(|n| insert(&mut entries, n)).collect();
    assert_eq!(entries.capacity(), 10 * PAGE_LEN);
    for (removed, key) in keys.into_iter().enumerate() {
        assert_eq!(entries.remove(key.index()), removed);
        assert!(entries.capacity() <= entries.len() + 2 * PAGE_LEN, "{removed} removed");
    }
}

#[test]
fn entries_round_a_border_of_a_page_do_not_allocate_each_time() {
    let mut entries = Entries::new();
    let keys: Vec<Key> = (0..PAGE_LEN).map(|n| insert(&mut entries, n)).collect();
    let mut beyond = insert(&mut entries, PAGE_LEN);
    let capacity = entries.capacity();
    // However few are left of the page before it.
    for key in &keys[1..] {
        entries.remove(beyond.index());
        assert_eq!(entries.capacity(), capacity, "{} left", entries.len());
        beyond = insert(&mut entries, PAGE_LEN);
        entries.remove(key.index());
    }
}

#[test]
fn the_only_free_place_of_a_page_is_filled_at_once_and_a_page_with_two_waits_its_turn() {
    let mut entries = Entries::new();
    let keys: Vec<Key> = (0..2 * PAGE_LEN + 9).map(|n| insert(&mut entries, n)).collect();
    entries.remove(keys[5].index());
    assert_eq!(insert(&mut entries, 5).index(), keys[5].index());
    for of_a_page in [0, 1] {
        entries.remove(keys[of_a_page].index());
    }
    let next = 2 * PAGE_LEN + 9;
    assert_eq!(insert(&mut entries, 0).index() as usize, next);
}

#[test]
fn a_few_entries_take_a_few_places() {
    let mut entries = Entries::new();
    insert(&mut entries, 0);
    assert!(entries.capacity() <= 8, "{}", entries.capacity());
}

#[test]
fn there_are_as_many_indices_as_is_said_and_the_last_one_is_none() {
    assert_eq!(MAX_ENTRIES, 4_294_966_272);
    let last = join(MAX_PAGES - 1, PAGE_LEN - 1);
    assert_eq!(last as usize, MAX_ENTRIES - 1);
    assert!(!Key::new(last, 0).is_vacancy());
}
