//! What a handler reaches and hears, and what is seen of its attempts, in every store, by the clock of the machine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel_durable::store::{Page, Store};
use timingwheel_durable::{Answer, Backoff, Cancelled, Error, HandlerResult, Handling, Interrupt, Run};
use tokio::sync::mpsc;

use crate::every_store::{Note, in_every_store, instance, later, note};

in_every_store! {
    a_handler_saves_with_its_durable_and_does_not_keep_it_from_ending
    a_handler_hears_a_cancel_and_a_stop_and_which_it_was
    a_hook_sees_each_attempt_and_how_it_ended_and_its_answer_counts
    so_many_of_a_kind_run_at_once_and_the_others_wait_and_are_seen_and_called
    an_attempt_that_takes_longer_than_its_limit_fails_and_is_made_again
    ten_thousand_timers_are_saved_in_one_call_and_each_has_its_answer
}

const SECOND: Duration = Duration::from_secs(1);

async fn a_handler_saves_with_its_durable_and_does_not_keep_it_from_ending<S: Store + Clone>(store: S) {
    let (told, mut tells) = mpsc::unbounded_channel();
    let handler = move |Note(text): Note, run: Run| {
        let told = told.clone();
        async move {
            if text == "first" {
                run.durable()?.at(run.due, &note("second")).save().await?;
            } else {
                // The test has dropped its handle by now.
                run.token().cancelled().await;
                let saved = run.durable()?.at(run.due, &note("third")).save().await;
                told.send((run.interrupted(), saved.is_err())).unwrap();
            }
            told.send((None, false)).unwrap();
            Ok(Answer::Done)
        }
    };
    let durable = instance(&store).on(handler).start().await.unwrap();
    durable.at(later(0), &note("first")).save().await.unwrap();
    assert_eq!(tells.recv().await, Some((None, false)));
    while durable.stats().attempts < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(durable);
    // `durable()` fails, so nothing is told before the sender goes.
    assert_eq!(tells.recv().await, None);
}

async fn a_handler_hears_a_cancel_and_a_stop_and_which_it_was<S: Store + Clone>(store: S) {
    let (told, mut tells) = mpsc::unbounded_channel();
    let handler = move |_: Note, run: Run| {
        let told = told.clone();
        async move {
            told.send(run.interrupted()).unwrap();
            run.token().cancelled().await;
            told.send(run.interrupted()).unwrap();
            Ok(Answer::Retry(SECOND))
        }
    };
    let durable = instance(&store).on(handler).start().await.unwrap();
    // After the cancel nothing follows, and after the stop another attempt.
    for (how, left) in [(Interrupt::Cancelled, 0), (Interrupt::Stop, 1)] {
        durable.at(later(0), &note("")).key("k").save().await.unwrap();
        assert_eq!(tells.recv().await, Some(None));
        if how == Interrupt::Cancelled {
            assert_eq!(durable.cancel("k").await.unwrap(), Cancelled::Running(1));
        } else {
            let stopped = durable.stop(Duration::from_secs(20)).await;
            assert_eq!((stopped.finished, stopped.aborted), (1, 0));
        }
        assert_eq!(tells.recv().await, Some(Some(how)));
        while durable.stats().begun > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(durable.count().await.unwrap().stored, left);
    }
}

async fn a_hook_sees_each_attempt_and_how_it_ended_and_its_answer_counts<S: Store + Clone>(store: S) {
    let (told, mut tells) = mpsc::unbounded_channel();
    let outer = move |run: Run, handling: Handling| {
        let told = told.clone();
        async move {
            let result = handling.await;
            let ended = result.as_ref().map(Clone::clone).map_err(ToString::to_string);
            told.send((run.kind, run.key.clone(), run.attempt, ended)).unwrap();
            match result {
                Err(_) if run.attempt == 3 => Ok(Answer::Bury("by the hook".to_owned())),
                result => result,
            }
        }
    };
    let order = Arc::new(Mutex::new(Vec::new()));
    let note_in = |name: &'static str| {
        let order = order.clone();
        move |_: Run, handling: Handling| {
            order.lock().unwrap().push(name);
            handling
        }
    };
    let handler = |_: Note, run: Run| async move {
        match run.attempt {
            1 => Err("not yet".into()),
            2 => panic!("at two"),
            _ => HandlerResult::Err("at last".into()),
        }
    };
    let backoff = Backoff::fixed(Duration::from_millis(1)).jitter(0.0);
    let builder = instance(&store).on(handler).retry::<Note>(backoff).around(note_in("inner"));
    let durable = builder.around(note_in("outer")).around(outer).start().await.unwrap();
    durable.at(later(0), &note("")).key("k").save().await.unwrap();
    for (attempt, error) in [(1, "not yet"), (2, "panicked: at two"), (3, "at last")] {
        let expected = ("note", Some("k".to_owned()), attempt, Err(error.to_owned()));
        assert_eq!(tells.recv().await, Some(expected));
    }
    durable.stop(SECOND).await;
    let stats = durable.stats();
    let of_kind = &stats.kinds["note"];
    assert_eq!((stats.panicked, stats.buried, of_kind.attempts, of_kind.errors), (1, 1, 3, 2));
    assert_eq!((of_kind.took.count(), of_kind.lateness.count()), (3, 3));
    assert_eq!(*order.lock().unwrap(), ["outer", "inner"].repeat(3));
}

async fn so_many_of_a_kind_run_at_once_and_the_others_wait_and_are_seen_and_called<S: Store + Clone>(
    store: S,
) {
    let running = Arc::new(Mutex::new((0, 0, 0)));
    let noted = running.clone();
    let handler = move |_: Note, _: Run| {
        let noted = noted.clone();
        async move {
            {
                let (now, most, all) = &mut *noted.lock().unwrap();
                (*now, *all) = (*now + 1, *all + 1);
                *most = (*now).max(*most);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            noted.lock().unwrap().0 -= 1;
            Ok(Answer::Done)
        }
    };
    let durable = instance(&store).on(handler).concurrency_of::<Note>(3).start().await.unwrap();
    let due = later(0);
    // Together: a slow disk would leave the handlers time between them.
    let timers = (0..20).map(|n| durable.at(due, &note("")).key(format!("k{n}")));
    assert!(durable.save_all(timers).await.iter().all(Result::is_ok));
    let mut seen = 0;
    while running.lock().unwrap().2 < 19 {
        seen = seen.max(durable.stats().kinds.get("note").map_or(0, |kind| kind.waiting));
        if seen > 0
            && seen < 100
            && durable.stats().begun == 3
            && durable.cancel("k19").await.unwrap() == Cancelled::Removed
        {
            seen += 100;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(seen > 100, "some waited, and one of them was cancelled: {seen}");
    while durable.stats().begun > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(*running.lock().unwrap(), (0, 3, 19));
    let stats = durable.stats();
    assert_eq!((stats.done, stats.kinds["note"].waiting, durable.count().await.unwrap().stored), (19, 0, 0));
}

async fn an_attempt_that_takes_longer_than_its_limit_fails_and_is_made_again<S: Store + Clone>(store: S) {
    let limit = Duration::from_millis(50);
    let handler = move |_: Note, run: Run| async move {
        #[cfg(feature = "deadline")]
        assert!(timingwheel_deadline::Deadline::current().unwrap().remaining() <= Some(limit));
        if run.attempt == 1 {
            std::future::pending::<()>().await;
        }
        Ok(Answer::Bury("the second".to_owned()))
    };
    let backoff = Backoff::fixed(Duration::from_millis(1)).jitter(0.0);
    let builder = instance(&store).on(handler).retry::<Note>(backoff).time_limit::<Note>(limit);
    let durable = builder.start().await.unwrap();
    let id = durable.at(later(0), &note("")).save().await.unwrap();
    while durable.stats().buried < 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.unwrap();
    assert_eq!((buried[0].timer.id(), buried[0].attempts), (id, 2));
    assert_eq!(buried[0].failures[0].error, "it took longer than its limit of 50ms");
    durable.stop(SECOND).await;
}

async fn ten_thousand_timers_are_saved_in_one_call_and_each_has_its_answer<S: Store + Clone>(store: S) {
    let durable = instance(&store).start().await.unwrap();
    let taken = durable.at(later(1), &note("")).key("k7").save().await.unwrap();
    let (due, payload) = (later(2), note(""));
    let timers = (0..10_000).map(|n| durable.at(due, &payload).key(format!("k{n}")));
    let saved = durable.save_all(timers).await;
    assert_eq!(saved.len(), 10_000);
    for (n, saved) in saved.iter().enumerate() {
        match saved {
            Ok(id) if n % 1_000 == 0 => {
                assert_eq!(durable.get(format!("k{n}")).await.unwrap().unwrap().timer.id(), *id);
            }
            Ok(_) => assert_ne!(n, 7),
            Err(error) => {
                assert!(n == 7 && matches!(error, Error::KeyTaken(id) if *id == taken), "{n}: {error}");
            }
        }
    }
    // The first save, and ten thousand in three calls or a few more.
    assert!(durable.stats().save_batches < 10, "{}", durable.stats().save_batches);
    assert_eq!(durable.count().await.unwrap().stored, 10_000);
}
