//! With `--cfg loom`, which users set for models of their own, timers work as in any other build. `.ci/run` runs this
//! test in such a build.

use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::runtime::Builder;

#[test]
fn timers_fire_in_a_build_with_cfg_loom() {
    // tokio has no I/O driver in such a build.
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let wheel = TimingWheel::new();
        let tasks: Vec<_> = (1..20).map(|n| tokio::spawn(wheel.sleep(Duration::from_millis(n)))).collect();
        for task in tasks {
            task.await.expect("it does not panic");
        }
        assert!(wheel.timeout(Duration::from_millis(5), std::future::pending::<()>()).await.is_err());
        assert_eq!(wheel.pending(), 0);
    });
}
