//! What a handler reaches and hears, and what is seen of its attempts, in every store, by the clock of the machine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel_durable::store::Store;
use timingwheel_durable::{Answer, Backoff, Cancelled, HandlerResult, Handling, Interrupt, Run};
use tokio::sync::mpsc;

use crate::every_store::{Note, in_every_store, instance, later, note};

in_every_store! {
    a_handler_saves_with_its_durable_and_does_not_keep_it_from_ending
    a_handler_hears_a_cancel_and_a_stop_and_which_it_was
    a_hook_sees_each_attempt_and_how_it_ended_and_its_answer_counts
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
