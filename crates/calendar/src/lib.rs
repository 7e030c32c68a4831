//! x
mod cron;
mod rule;
mod wall;
mod zone;
mod zone_name;
pub use cron::{Cron, CronError, CronField};
pub use rule::{Rule, Upcoming};
pub use zone::{Description, Gap, InZone, Overlap};
