//! How do members of a group wait for each other, where the group has a lock? Each join is answered when all have come. The
//! thread that holds the lock leaves the conditions to the tasks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_purgatory::Purgatory;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() {
    let purgatory = Purgatory::new(&TimingWheel::new());
    let group = Arc::new(Mutex::new(Vec::new()));
    let mut joins = JoinSet::new();
    for member in ["ada", "grace", "edsger"] {
        let members = group.clone();
        let all_here = purgatory.watch(["group"], Duration::from_secs(5), move || {
            Some(members.lock().unwrap().clone()).filter(|members| members.len() == 3)
        });
        joins.spawn(async move { (member, all_here.await) });

        let mut members = group.lock().unwrap();
        members.push(member);
        purgatory.check_in_tasks("group");
    }
    while let Some(joined) = joins.join_next().await {
        let (member, group) = joined.unwrap();
        println!("{member} is in {group:?}");
    }
}
