//! From the opening of a file that was not closed to the first handler.

use std::path::Path;
use std::time::Instant;

use timingwheel::TimingWheel;
use timingwheel_durable::RedbStore;

use crate::raw::Raw;
use crate::rig::{Called, Files, ago, fill, median, millis, runtime};
use crate::{Row, Scale};

/// As the disk has it while it is open: what a process leaves behind that is killed.
fn killed(path: &Path, files: &mut Files) -> std::path::PathBuf {
    let copy = files.next();
    std::fs::copy(path, &copy).expect("a copy");
    copy
}

pub(crate) fn restart(scale: Scale) -> Row {
    let (mut files, count) = (Files::new(), scale.restart);
    let raw_path = files.next();
    let raw = Raw::create(&raw_path);
    raw.insert(0..count as u128, 10_000);
    let path = files.next();
    let store = runtime().block_on(async {
        let store = RedbStore::create(&path).expect("a store");
        fill(&store, count, ago(100_000)).await;
        store
    });
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..scale.pairs {
        let copy = killed(&raw_path, &mut files);
        let begin = Instant::now();
        let again = Raw::open(&copy);
        assert_eq!(again.load(10_000).len(), count.min(10_000));
        raws.push(begin.elapsed().as_secs_f64());
        drop(again);
        let copy = killed(&path, &mut files);
        ours.push(runtime().block_on(async {
            let (wheel, called) = (TimingWheel::new(), Called::new(1));
            let begin = Instant::now();
            let store = RedbStore::create(&copy).expect("a store");
            let durable = called.builder(&wheel, store).start().await.expect("a start");
            called.wait().await;
            let took = begin.elapsed();
            durable.stop(std::time::Duration::from_secs(60)).await;
            took.as_secs_f64()
        }));
        std::fs::remove_file(copy).expect("removed");
    }
    drop((store, raw));
    let (ours, raw) = (median(ours), median(raws));
    Row {
        name: "restart to first firing, 1 M stored",
        ours: millis(ours),
        other: millis(raw),
        ratio: Some(ours / raw),
        target: "< 2",
    }
}
