//! Somebody who has saved a timer under its name, and may cancel or move it: told to a history before and after.

use jiff::{SignedDuration, Timestamp};
use timingwheel_durable::{Cancelled, Durable, Moved};

use super::history::{History, millis};

/// One in four is cancelled, and one in four moved, to at most so many milliseconds later.
pub(crate) async fn change_mind(
    durable: &Durable,
    history: &History,
    (name, due): (&str, Timestamp),
    random: &mut fastrand::Rng,
    later: i64,
) {
    match random.u8(..4) {
        0 => {
            history.tell(&format!("cancelling {name}"));
            match durable.cancel(name).await {
                Ok(Cancelled::Removed) => history.tell(&format!("removed {name}")),
                Ok(_) => history.tell(&format!("kept {name}")),
                Err(_) => {}
            }
        }
        1 => {
            let due = due + SignedDuration::from_millis(random.i64(-50..later));
            history.tell(&format!("moving {name} {}", millis(due)));
            if let Ok(Moved::Moved(_)) = durable.reschedule(name, due).await {
                history.tell(&format!("moved {name} {}", millis(due)));
            }
        }
        _ => {}
    }
}
