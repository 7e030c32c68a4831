//! How do I cancel an order after 30 days, unless it is paid?
//!
//! `cargo run -p timingwheel-calendar --example order`
//!
//! Thirty days by the customer's calendar, to the hour at which they ordered, and 720 hours are not the same where clocks
//! change in between, so there is a constructor for each. A job under the order's number cancels it; payment removes the
//! job. The program exits with 1 if an order is cancelled at another time, or one that is paid is.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Zoned;
use timingwheel::TimingWheel;
use timingwheel_calendar::{Once, WallClock};
use timingwheel_jobs::Jobs;

const DAY: Duration = Duration::from_secs(86_400);

/// Cancels an order, by its number, when it has not been paid for 30 days of the customer's calendar. In production
/// `clock` is `WallClock::new(&wheel)`.
fn cancel_unpaid<F: Future<Output = ()> + Send + 'static>(
    orders: &Jobs<&'static str>,
    clock: &WallClock,
    (order, ordered): (&'static str, &Zoned),
    cancel: impl FnMut() -> F + Send + 'static,
) -> Result<(), Box<dyn Error>> {
    let in_30_days = Once::after_calendar_days(ordered, 30);
    orders.try_run_by(order, clock.schedule(in_30_days), cancel)?;
    Ok(())
}

/// Tells whether an order that is paid was in time.
fn pay(orders: &Jobs<&'static str>, order: &'static str) -> bool {
    orders.remove(&order).is_some()
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let ordered: Zoned = "2026-03-15T12:00:00[Europe/Berlin]".parse()?;
    let wheel = TimingWheel::new();
    let clock = WallClock::starting_at(&wheel, ordered.timestamp());
    let orders = Jobs::new(&wheel);
    let cancelled: Arc<Mutex<Vec<String>>> = Arc::default();
    let cancel = |order: &'static str| {
        let (cancelled, clock, zone) = (Arc::clone(&cancelled), clock.clone(), ordered.time_zone().clone());
        move || {
            let now = clock.now().to_zoned(zone.clone());
            cancelled.lock().unwrap().push(format!("{order} on {}", now.strftime("%F at %H:%M %Z")));
            async { /* Tell the customer. */ }
        }
    };

    let in_720_hours = Once::after_hours(ordered.timestamp(), 720);
    cancel_unpaid(&orders, &clock, ("order 1", &ordered), cancel("order 1"))?;
    orders.try_run_by("order 2", clock.schedule(in_720_hours), cancel("order 2"))?;
    cancel_unpaid(&orders, &clock, ("order 3", &ordered), cancel("order 3"))?;

    wheel.sleep(20 * DAY).await;
    let paid = pay(&orders, "order 3");
    println!("order 3 is paid on {}", clock.now().strftime("%F"));
    wheel.sleep(20 * DAY).await;

    let cancelled = cancelled.lock().unwrap();
    cancelled.iter().for_each(|order| println!("cancelled: {order}"));
    let expected = ["order 1 on 2026-04-14 at 12:00 CEST", "order 2 on 2026-04-14 at 13:00 CEST"];
    if !paid || *cancelled != expected || !orders.is_empty() {
        return Err(format!("{cancelled:?}, and not {expected:?}").into());
    }
    println!("\nWhat it means: 30 days end at the same hour by the clock, 720 hours may not.");
    Ok(())
}
