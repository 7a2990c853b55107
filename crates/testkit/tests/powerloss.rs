//! The recorder and its images, on programs whose every system call is known.

use std::{
    collections::BTreeSet, error::Error, path::Path, process::Command, thread, time::Duration,
};

use turnstone_testkit::{
    fault::FaultPlan,
    fixture::TempData,
    powerloss::{Image, PointKind, Policy, RecordError, Recorder, Recording, Side},
};

type TestResult = Result<(), Box<dyn Error>>;

fn probe(data: &TempData, steps: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testkit-probe"));
    command.arg(data.path()).args(steps);
    command
}

fn record(data: &TempData, steps: &[&str]) -> Result<Recording, Box<dyn Error>> {
    let recording = Recorder::new(data.path()).record(&probe(data, steps))?;
    if !recording.status().success() {
        return Err(format!("the probe failed: {}", recording.stderr()).into());
    }
    Ok(recording)
}

/// The text of a file in the image after the end; `None` if the name is lost.
fn survivor(recording: &Recording, policy: Policy, name: &str) -> Option<String> {
    let image = Image::at(recording, &recording.end(), policy).expect("an image can be written");
    let bytes = fs_err::read(image.path().join(name)).ok()?;
    Some(String::from_utf8(bytes).expect("probes write text"))
}

#[test]
fn unsynced_data_is_dropped_and_synced_data_stays() -> TestResult {
    let data = TempData::new()?;
    let steps =
        ["write:a:0:AAAA", "fsync:a", "syncdir:.", "ack:A", "write:a:4:BBBB", "write:a:0:x"];
    let recording = record(&data, &steps)?;

    assert_eq!(survivor(&recording, Policy::STRICT, "a"), Some("AAAA".to_owned()));
    assert_eq!(recording.acknowledged(&recording.end()), ["A"]);
    assert_eq!(fs_err::read_to_string(data.join("a"))?, "xAAABBBB");
    Ok(())
}

#[test]
fn an_acknowledgement_before_the_sync_is_caught_as_a_loss() -> TestResult {
    let check = |image: &Path, acknowledged: &[String]| {
        let kept = fs_err::read_to_string(image.join("a")).unwrap_or_default();
        match acknowledged.iter().find(|line| !kept.contains(*line)) {
            Some(line) => Err(format!("acknowledged but lost: {line}")),
            None => Ok(()),
        }
    };
    let data = TempData::new()?;
    let early = ["open:a", "syncdir:.", "put:a:one", "ack:one", "fdatasync:a"];
    let recording = record(&data, &early)?;
    let losses = recording.losses(&recording.points(), Policy::STRICT, check)?;
    assert!(!losses.is_empty());
    assert!(losses.iter().all(|loss| loss.reason == "acknowledged but lost: one"));

    let data = TempData::new()?;
    let late = ["open:a", "syncdir:.", "put:a:one", "fdatasync:a", "ack:one"];
    let recording = record(&data, &late)?;
    assert!(recording.losses(&recording.points(), Policy::STRICT, check)?.is_empty());
    let ignored = Policy::STRICT.ignoring_fsync();
    assert!(!recording.losses(&recording.points(), ignored, check)?.is_empty());
    Ok(())
}

#[test]
fn a_stubbed_fsync_makes_nothing_durable() -> TestResult {
    let data = TempData::new()?;
    let steps = ["write:a:0:AAAA", "fsync:a", "syncdir:.", "ack:A"];
    let recorder = Recorder::new(data.path()).faults(FaultPlan::stub_fsync());
    let recording = recorder.record(&probe(&data, &steps))?;
    assert!(recording.status().success(), "{}", recording.stderr());
    assert_eq!(recording.acknowledged(&recording.end()), ["A"]);
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), None);
    Ok(())
}

#[test]
fn a_new_file_synced_without_its_directory_loses_its_name() -> TestResult {
    let data = TempData::new()?;
    let recording = record(&data, &["write:a:0:AAAA", "fsync:a"])?;
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), None);
    assert_eq!(survivor(&recording, Policy::STRICT.ordered(), "a"), Some("AAAA".to_owned()));
    Ok(())
}

#[test]
fn a_rename_is_lost_until_its_directory_is_synced() -> TestResult {
    let data = TempData::new()?;
    fs_err::write(data.join("a"), "old")?;
    let steps = ["write:new:0:new", "fsync:new", "rename:new:a"];
    let recording = record(&data, &steps)?;
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), Some("old".to_owned()));
    assert_eq!(survivor(&recording, Policy::STRICT, "new"), None);

    let data = TempData::new()?;
    fs_err::write(data.join("a"), "old")?;
    let synced = [&steps[..], &["syncdir:.", "ack:renamed"]].concat();
    let recording = record(&data, &synced)?;
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), Some("new".to_owned()));
    assert_eq!(survivor(&recording, Policy::STRICT, "new"), None);
    let renames = recording.points().into_iter().filter(|point| point.label.starts_with("rename"));
    let sides: Vec<_> = renames.map(|point| (point.kind, point.side)).collect();
    assert_eq!(sides.last(), Some(&(PointKind::Name, Side::After)));
    Ok(())
}

#[test]
fn a_rename_of_an_unsynced_file_leaves_an_empty_one() -> TestResult {
    let data = TempData::new()?;
    fs_err::write(data.join("a"), "old")?;
    let recording = record(&data, &["write:new:0:new", "rename:new:a", "syncdir:."])?;
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), Some(String::new()));
    Ok(())
}

#[test]
fn a_truncation_lasts_from_the_next_sync_on() -> TestResult {
    let data = TempData::new()?;
    fs_err::write(data.join("a"), "0123456789")?;
    let recording = record(&data, &["truncate:a:4"])?;
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), Some("0123456789".to_owned()));

    let recording = record(&data, &["truncate:a:2", "fsync:a", "write:a:8:89"])?;
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), Some("01".to_owned()));
    Ok(())
}

#[test]
fn an_unlink_is_undone_unless_its_directory_was_synced() -> TestResult {
    let data = TempData::new()?;
    fs_err::write(data.join("a"), "kept")?;
    fs_err::write(data.join("b"), "gone")?;
    let recording = record(&data, &["unlink:b", "syncdir:.", "unlink:a"])?;
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), Some("kept".to_owned()));
    assert_eq!(survivor(&recording, Policy::STRICT, "b"), None);
    Ok(())
}

#[test]
fn a_file_is_lost_with_a_directory_whose_own_name_was_not_synced() -> TestResult {
    let data = TempData::new()?;
    let steps = ["mkdir:d", "write:d/a:0:AAAA", "fsync:d/a", "syncdir:d"];
    let recording = record(&data, &steps)?;
    assert_eq!(survivor(&recording, Policy::STRICT, "d/a"), None);

    let data = TempData::new()?;
    let recording = record(&data, &[&steps[..], &["syncdir:."]].concat())?;
    assert_eq!(survivor(&recording, Policy::STRICT, "d/a"), Some("AAAA".to_owned()));
    Ok(())
}

#[test]
fn a_move_between_directories_needs_both_of_them_synced() -> TestResult {
    let setup = || -> Result<TempData, Box<dyn Error>> {
        let data = TempData::new()?;
        fs_err::create_dir(data.join("from"))?;
        fs_err::create_dir(data.join("to"))?;
        fs_err::write(data.join("from/a"), "text")?;
        Ok(data)
    };
    let text = Some("text".to_owned());
    let data = setup()?;
    let recording = record(&data, &["rename:from/a:to/a", "syncdir:to"])?;
    assert_eq!(survivor(&recording, Policy::STRICT, "from/a"), text);
    assert_eq!(survivor(&recording, Policy::STRICT, "to/a"), text);
    assert_eq!(survivor(&recording, Policy::STRICT.ordered(), "from/a"), None);

    let data = setup()?;
    let recording = record(&data, &["rename:from/a:to/a", "syncdir:from"])?;
    assert_eq!(survivor(&recording, Policy::STRICT, "to/a"), None);
    assert_eq!(survivor(&recording, Policy::STRICT.ordered(), "to/a"), text);
    Ok(())
}

#[test]
fn torn_images_are_the_same_for_the_same_seed_and_differ_between_seeds() -> TestResult {
    let data = TempData::new()?;
    fs_err::write(data.join("a"), "-".repeat(40_960))?;
    let steps = ["fill:a:0:4096:S", "fsync:a", "fill:a:4096:24576:1", "fill:a:6000:20000:2"];
    let recording = record(&data, &steps)?;

    let mut seen = BTreeSet::new();
    for seed in 0..20 {
        let torn = survivor(&recording, Policy::torn(seed), "a").unwrap();
        assert_eq!(Some(&torn), survivor(&recording, Policy::torn(seed), "a").as_ref());
        // What was synced stays, and a sector is old, or written once, or written twice.
        assert!(torn[..4096].bytes().all(|byte| byte == b'S'));
        let sector = &torn.as_bytes()[8192..12288];
        assert!(b"-12".contains(&sector[0]) && sector.iter().all(|byte| *byte == sector[0]));
        assert!(torn[28_672..].bytes().all(|byte| byte == b'-'));
        seen.insert(torn);
    }
    assert!(seen.len() > 5, "only {} different images", seen.len());
    Ok(())
}

#[test]
fn torn_names_may_survive_without_their_data() -> TestResult {
    let data = TempData::new()?;
    fs_err::write(data.join("a"), "old")?;
    let recording = record(&data, &["write:new:0:new", "rename:new:a"])?;
    let outcomes: BTreeSet<_> =
        (0..40).map(|seed| survivor(&recording, Policy::torn(seed), "a")).collect();
    for expected in ["old", "", "new"] {
        assert!(outcomes.contains(&Some(expected.to_owned())), "{expected:?} in {outcomes:?}");
    }
    Ok(())
}

#[test]
fn threads_that_interleave_lose_nothing_they_acknowledged() -> TestResult {
    let data = TempData::new()?;
    let recording = record(&data, &["threads:4:25"])?;
    assert_eq!(recording.acknowledged(&recording.end()).len(), 100);
    let check = |image: &Path, acknowledged: &[String]| {
        for line in acknowledged {
            let thread = line.split('.').next().unwrap_or_default();
            let kept = fs_err::read_to_string(image.join(format!("thread-{thread}")));
            if !kept.unwrap_or_default().lines().any(|other| other == line) {
                return Err(format!("{line} is lost"));
            }
        }
        Ok(())
    };
    let points = recording.points();
    for policy in [Policy::STRICT, Policy::torn(1)] {
        let losses = recording.losses(&points, policy, check)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    let losses = recording.losses(&points, Policy::STRICT.ignoring_fsync(), check)?;
    assert!(!losses.is_empty());
    Ok(())
}

#[test]
fn a_child_process_is_followed_and_shares_standard_output() -> TestResult {
    let data = TempData::new()?;
    let recording =
        record(&data, &["child:write,a,0,AAAA;fsync,a;syncdir,.;ack,child", "ack:parent"])?;
    assert_eq!(recording.acknowledged(&recording.end()), ["child", "parent"]);
    assert_eq!(survivor(&recording, Policy::STRICT, "a"), Some("AAAA".to_owned()));
    Ok(())
}

#[test]
fn appended_copied_linked_and_removed_files_are_followed_to_the_byte() -> TestResult {
    let data = TempData::new()?;
    let steps = [
        "append:a:one",
        "append:a:two",
        "put:a:X",
        "put:a:Y",
        "copy:a:b",
        "link:b:c",
        "unlink:b",
        "replace:a:short",
        "mkdir:d",
        "replace:d/e:text",
        "mkdir:d/f",
        "rename:d:g",
        "replace:g/h:1",
        "rmtree:g",
        "append:log:one",
        "append:log:two",
        "syncdir:.",
    ];
    // That `record` returns at all is the assertion: it compares with the real directory.
    let recording = record(&data, &steps)?;
    assert_eq!(fs_err::read_to_string(data.join("c"))?, "XYetwo");
    assert_eq!(survivor(&recording, Policy::STRICT, "c"), Some(String::new()));
    Ok(())
}

#[test]
fn a_change_that_escapes_the_recorder_is_an_error() -> TestResult {
    let data = TempData::new()?;
    let (ready, path) = (data.join("ready"), data.join("elsewhere"));
    let writer = thread::spawn(move || {
        while !ready.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        fs_err::write(path, "by a process that is not traced")
    });
    let result =
        Recorder::new(data.path()).record(&probe(&data, &["open:ready", "await:elsewhere"]));
    writer.join().unwrap()?;
    let Err(RecordError::Diverged { path, how }) = result else {
        return Err("not noticed".into());
    };
    assert_eq!((path.to_str(), how.as_str()), (Some("elsewhere"), "is unexpected"));
    Ok(())
}

#[test]
fn a_line_that_is_not_complete_is_not_acknowledged() -> TestResult {
    let data = TempData::new()?;
    let recording =
        record(&data, &["ack:one", "partial:tw", "partial:o", "ack:", "partial:three"])?;
    assert_eq!(recording.acknowledged(&recording.end()), ["one", "two"]);
    let first = recording.points().into_iter().find(|point| point.label.contains("one"));
    let first = first.filter(|point| point.side == Side::Before).ok_or("no point before `one`")?;
    assert!(recording.acknowledged(&first).is_empty());
    Ok(())
}
