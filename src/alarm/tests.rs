//! How late the thread rang, as the driver is told.

use super::*;

/// Arms for a time that has passed, and waits until the thread has rung for it.
fn ring_at_once(alarm: &Alarm) {
    alarm.arm(Nanos(1), Nanos::MAX);
    while alarm.armed.load(Ordering::Relaxed) != AWAKE {
        std::thread::yield_now();
    }
}

#[test]
fn lateness_is_told_once_and_not_after_the_driver_has_armed_again() {
    let alarm = Arc::new(Alarm::new(Clock::start(), false, 1, Notes::of("alone".into())));
    alarm.start().expect("a thread");
    assert_eq!(alarm.take_lateness(), Duration::ZERO);
    ring_at_once(&alarm);
    assert!(alarm.take_lateness() > Duration::ZERO);
    assert_eq!(alarm.take_lateness(), Duration::ZERO);
    ring_at_once(&alarm);
    alarm.arm(Nanos::MAX, Nanos::MAX);
    assert_eq!(alarm.take_lateness(), Duration::ZERO);
    alarm.end();
}

#[test]
fn a_driver_that_comes_before_the_thread_has_rung_is_late_too_but_not_for_what_lies_ahead() {
    let clock = Clock::start();
    // Without a thread.
    let alarm = Alarm::new(clock, false, 1, Notes::of("alone".into()));
    alarm.arm(clock.now(), Nanos::MAX);
    std::thread::sleep(Duration::from_millis(1));
    assert!(alarm.take_lateness() >= Duration::from_millis(1));
    alarm.arm(clock.now().after(Duration::from_secs(60)), Nanos::MAX);
    assert_eq!(alarm.take_lateness(), Duration::ZERO);
}
