//! What durable timers promise, when something goes wrong at each step.

mod child;
mod disk;
mod failures;
mod history;
mod hooked;
mod kills;
mod leased;
mod locked;
mod power;
mod races;
mod redb_races;
mod schedules;
mod script;
mod shared;
mod too_late;
mod unheard;
mod user;
