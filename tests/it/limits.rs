//! The settings' limits and the errors beyond them. `faults::settings` has the extremes that work.

use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Nanos, Resolution};
use timingwheel::{BuildError, Builder, TimingWheel};

use crate::ms;
use crate::panic_place::{Panic, panic_in};

fn refusal(builder: Builder) -> String {
    builder.build().unwrap_err().to_string()
}

#[tokio::test]
async fn a_setting_beyond_its_limit_is_refused_and_both_are_named() {
    let builder = TimingWheel::builder;
    let tick = |tick| refusal(builder().tick(tick));
    assert_eq!(tick(Duration::ZERO), "tick must be at least 1µs, got 0ns");
    assert_eq!(tick(Duration::from_nanos(999)), "tick must be at least 1µs, got 999ns");
    assert_eq!(
        tick(Duration::MAX),
        "tick must be at most 18446744073.709551615s, got 18446744073709551615.999999999s"
    );
    for (slots, text) in [(0, "0"), (1, "1"), (65_537, "65537")] {
        let text = format!("wheel size must be 2 to 65536, got {text}");
        assert_eq!(refusal(builder().wheel_size(slots)), text);
    }
    assert_eq!(refusal(builder().shards(0)), "shards must be 1 to 1024, got 0");
    assert_eq!(refusal(builder().shards(1_025)), "shards must be 1 to 1024, got 1025");
    assert_eq!(
        refusal(builder().shards(129).wheel_size(65_536)),
        "shards times wheel size must be at most 8388608, got 129 times 65536"
    );
}

#[test]
fn outside_a_runtime_a_wheel_is_refused_and_told_where_to_be_built() {
    let error = TimingWheel::builder().build().unwrap_err();
    assert!(matches!(error, BuildError::NoRuntime));
    assert_eq!(
        error.to_string(),
        "a timing wheel needs a tokio runtime for its driver, and this thread is not within one: \
         build it inside `block_on` or under `Runtime::enter`"
    );
}

#[test]
fn outside_a_runtime_new_panics_and_names_its_caller() {
    let Panic { file, text, .. } = panic_in(|| drop(TimingWheel::new())).unwrap();
    assert!(text.starts_with("`TimingWheel::new` failed: a timing wheel needs a tokio runtime"), "{text}");
    assert_eq!(file, file!());
}

#[test]
fn the_core_panics_and_names_its_caller() {
    let resolution = Resolution::new(ms(1)).unwrap();
    let file_of = |f: fn(Resolution)| panic_in(|| f(resolution)).unwrap().file;
    assert_eq!(file_of(|resolution| drop(Hierarchy::<()>::new(resolution, 1))), file!());
    let no_batch = |resolution| _ = Hierarchy::<()>::new(resolution, 2).advance(Nanos(1), 0, &mut vec![]);
    assert_eq!(file_of(no_batch), file!());
}

#[test]
fn a_wheel_is_built_on_a_runtime_that_the_thread_is_not_within_and_handles_tell_whose_they_are() {
    for workers in [0, 2] {
        let runtime = crate::runtime(workers);
        let wheel = TimingWheel::builder().build_on(runtime.handle()).unwrap();
        let other = TimingWheel::builder().build_on(runtime.handle()).unwrap();
        assert_eq!(wheel.runtime_id(), runtime.handle().id());
        assert!(wheel.same_wheel(&wheel.clone()) && !wheel.same_wheel(&other));
        runtime.block_on(wheel.sleep(ms(1)));
        assert_eq!((wheel.stats().fired, other.stats().fired), (1, 0));
    }
    let zero = TimingWheel::builder().shards(0);
    assert!(matches!(zero.build_on(crate::runtime(0).handle()), Err(BuildError::Shards { .. })));
}
