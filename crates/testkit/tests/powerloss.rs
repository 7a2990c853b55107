//! The recorder and its images, on programs whose every system call is known.

use std::{
    collections::BTreeSet, error::Error, path::Path, process::Command, thread, time::Duration,
};

use turnstone_testkit::{
    fault::FaultPlan,
    fixture::TempDataDir,
    powerloss::{
        CutPointKind, CutSide, DiskImage, PowerCutPolicy, RecordError, Recorder, Recording,
    },
};

type TestResult = Result<(), Box<dyn Error>>;

fn probe_command(data: &TempDataDir, steps: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testkit-probe"));
    command.arg(data.path()).args(steps);
    command
}

fn record(data: &TempDataDir, steps: &[&str]) -> Result<Recording, Box<dyn Error>> {
    let recording = Recorder::new(data.path()).record(&probe_command(data, steps))?;
    if !recording.status().success() {
        return Err(format!("the probe failed: {}", recording.stderr()).into());
    }
    Ok(recording)
}

/// The text of a file in the image after the end; `None` if the name is lost.
fn surviving_text(recording: &Recording, policy: PowerCutPolicy, name: &str) -> Option<String> {
    let image =
        DiskImage::build(recording, &recording.end(), policy).expect("an image can be written");
    let bytes = fs_err::read(image.path().join(name)).ok()?;
    Some(String::from_utf8(bytes).expect("probes write text"))
}

#[test]
fn unsynced_data_is_dropped_and_synced_data_kept() -> TestResult {
    let data = TempDataDir::new()?;
    let steps =
        ["write:a:0:AAAA", "fsync:a", "syncdir:.", "ack:A", "write:a:4:BBBB", "write:a:0:x"];
    let recording = record(&data, &steps)?;

    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), Some("AAAA".to_owned()));
    assert_eq!(recording.acknowledged(&recording.end()), ["A"]);
    assert_eq!(fs_err::read_to_string(data.join("a"))?, "xAAABBBB");
    Ok(())
}

#[test]
fn acknowledging_before_fsync_is_detected_as_loss() -> TestResult {
    let check = |image: &Path, acknowledged: &[String]| {
        let kept = fs_err::read_to_string(image.join("a")).unwrap_or_default();
        match acknowledged.iter().find(|line| !kept.contains(*line)) {
            Some(line) => Err(format!("acknowledged but lost: {line}")),
            None => Ok(()),
        }
    };
    let data = TempDataDir::new()?;
    let early = ["open:a", "syncdir:.", "put:a:one", "ack:one", "fdatasync:a"];
    let recording = record(&data, &early)?;
    let losses = recording.find_losses(&recording.cut_points(), PowerCutPolicy::STRICT, check)?;
    assert!(!losses.is_empty());
    assert!(losses.iter().all(|loss| loss.reason == "acknowledged but lost: one"));

    let data = TempDataDir::new()?;
    let late = ["open:a", "syncdir:.", "put:a:one", "fdatasync:a", "ack:one"];
    let recording = record(&data, &late)?;
    assert!(
        recording.find_losses(&recording.cut_points(), PowerCutPolicy::STRICT, check)?.is_empty()
    );
    let ignored = PowerCutPolicy::STRICT.ignoring_fsync();
    assert!(!recording.find_losses(&recording.cut_points(), ignored, check)?.is_empty());
    Ok(())
}

#[test]
fn a_stubbed_fsync_makes_nothing_durable() -> TestResult {
    let data = TempDataDir::new()?;
    let steps = ["write:a:0:AAAA", "fsync:a", "syncdir:.", "ack:A"];
    let recorder = Recorder::new(data.path()).faults(FaultPlan::stub_fsync());
    let recording = recorder.record(&probe_command(&data, &steps))?;
    assert!(recording.status().success(), "{}", recording.stderr());
    assert_eq!(recording.acknowledged(&recording.end()), ["A"]);
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), None);
    Ok(())
}

#[test]
fn new_file_without_directory_fsync_loses_its_name() -> TestResult {
    let data = TempDataDir::new()?;
    let recording = record(&data, &["write:a:0:AAAA", "fsync:a"])?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), None);
    assert_eq!(
        surviving_text(&recording, PowerCutPolicy::STRICT.ordered(), "a"),
        Some("AAAA".to_owned())
    );
    Ok(())
}

#[test]
fn rename_is_lost_until_directory_fsync() -> TestResult {
    let data = TempDataDir::new()?;
    fs_err::write(data.join("a"), "old")?;
    let steps = ["write:new:0:new", "fsync:new", "rename:new:a"];
    let recording = record(&data, &steps)?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), Some("old".to_owned()));
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "new"), None);

    let data = TempDataDir::new()?;
    fs_err::write(data.join("a"), "old")?;
    let synced = [&steps[..], &["syncdir:.", "ack:renamed"]].concat();
    let recording = record(&data, &synced)?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), Some("new".to_owned()));
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "new"), None);
    let renames =
        recording.cut_points().into_iter().filter(|point| point.label.starts_with("rename"));
    let sides: Vec<_> = renames.map(|point| (point.kind, point.side)).collect();
    assert_eq!(sides.last(), Some(&(CutPointKind::Name, CutSide::After)));
    Ok(())
}

#[test]
fn rename_of_unsynced_file_leaves_an_empty_file() -> TestResult {
    let data = TempDataDir::new()?;
    fs_err::write(data.join("a"), "old")?;
    let recording = record(&data, &["write:new:0:new", "rename:new:a", "syncdir:."])?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), Some(String::new()));
    Ok(())
}

#[test]
fn truncation_is_durable_after_the_next_fsync() -> TestResult {
    let data = TempDataDir::new()?;
    fs_err::write(data.join("a"), "0123456789")?;
    let recording = record(&data, &["truncate:a:4"])?;
    assert_eq!(
        surviving_text(&recording, PowerCutPolicy::STRICT, "a"),
        Some("0123456789".to_owned())
    );

    let recording = record(&data, &["truncate:a:2", "fsync:a", "write:a:8:89"])?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), Some("01".to_owned()));
    Ok(())
}

#[test]
fn unlink_is_lost_without_directory_fsync() -> TestResult {
    let data = TempDataDir::new()?;
    fs_err::write(data.join("a"), "kept")?;
    fs_err::write(data.join("b"), "gone")?;
    let recording = record(&data, &["unlink:b", "syncdir:.", "unlink:a"])?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), Some("kept".to_owned()));
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "b"), None);
    Ok(())
}

#[test]
fn file_is_lost_with_its_unsynced_parent_directory() -> TestResult {
    let data = TempDataDir::new()?;
    let steps = ["mkdir:d", "write:d/a:0:AAAA", "fsync:d/a", "syncdir:d"];
    let recording = record(&data, &steps)?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "d/a"), None);

    let data = TempDataDir::new()?;
    let recording = record(&data, &[&steps[..], &["syncdir:."]].concat())?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "d/a"), Some("AAAA".to_owned()));
    Ok(())
}

#[test]
fn move_needs_fsync_of_both_directories() -> TestResult {
    let setup = || -> Result<TempDataDir, Box<dyn Error>> {
        let data = TempDataDir::new()?;
        fs_err::create_dir(data.join("from"))?;
        fs_err::create_dir(data.join("to"))?;
        fs_err::write(data.join("from/a"), "text")?;
        Ok(data)
    };
    let text = Some("text".to_owned());
    let data = setup()?;
    let recording = record(&data, &["rename:from/a:to/a", "syncdir:to"])?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "from/a"), text);
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "to/a"), text);
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT.ordered(), "from/a"), None);

    let data = setup()?;
    let recording = record(&data, &["rename:from/a:to/a", "syncdir:from"])?;
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "to/a"), None);
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT.ordered(), "to/a"), text);
    Ok(())
}

#[test]
fn torn_images_are_deterministic_per_seed() -> TestResult {
    let data = TempDataDir::new()?;
    fs_err::write(data.join("a"), "-".repeat(40_960))?;
    let steps = ["fill:a:0:4096:S", "fsync:a", "fill:a:4096:24576:1", "fill:a:6000:20000:2"];
    let recording = record(&data, &steps)?;

    let mut seen = BTreeSet::new();
    for seed in 0..20 {
        let torn = surviving_text(&recording, PowerCutPolicy::torn(seed), "a").unwrap();
        assert_eq!(
            Some(&torn),
            surviving_text(&recording, PowerCutPolicy::torn(seed), "a").as_ref()
        );
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
    let data = TempDataDir::new()?;
    fs_err::write(data.join("a"), "old")?;
    let recording = record(&data, &["write:new:0:new", "rename:new:a"])?;
    let outcomes: BTreeSet<_> =
        (0..40).map(|seed| surviving_text(&recording, PowerCutPolicy::torn(seed), "a")).collect();
    for expected in ["old", "", "new"] {
        assert!(outcomes.contains(&Some(expected.to_owned())), "{expected:?} in {outcomes:?}");
    }
    Ok(())
}

#[test]
fn interleaved_threads_lose_no_acknowledged_write() -> TestResult {
    let data = TempDataDir::new()?;
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
    let points = recording.cut_points();
    for policy in [PowerCutPolicy::STRICT, PowerCutPolicy::torn(1)] {
        let losses = recording.find_losses(&points, policy, check)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    let losses = recording.find_losses(&points, PowerCutPolicy::STRICT.ignoring_fsync(), check)?;
    assert!(!losses.is_empty());
    Ok(())
}

#[test]
fn child_process_is_traced_and_shares_stdout() -> TestResult {
    let data = TempDataDir::new()?;
    let recording =
        record(&data, &["child:write,a,0,AAAA;fsync,a;syncdir,.;ack,child", "ack:parent"])?;
    assert_eq!(recording.acknowledged(&recording.end()), ["child", "parent"]);
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "a"), Some("AAAA".to_owned()));
    Ok(())
}

#[test]
fn recording_matches_the_real_directory_byte_for_byte() -> TestResult {
    let data = TempDataDir::new()?;
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
    assert_eq!(surviving_text(&recording, PowerCutPolicy::STRICT, "c"), Some(String::new()));
    Ok(())
}

#[test]
fn change_missed_by_the_recorder_is_an_error() -> TestResult {
    let data = TempDataDir::new()?;
    let (ready, path) = (data.join("ready"), data.join("elsewhere"));
    let writer = thread::spawn(move || {
        while !ready.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        fs_err::write(path, "by a process that is not traced")
    });
    let result = Recorder::new(data.path())
        .record(&probe_command(&data, &["open:ready", "await:elsewhere"]));
    writer.join().unwrap()?;
    let Err(RecordError::Diverged { path, how }) = result else {
        return Err("not noticed".into());
    };
    assert_eq!((path.to_str(), how.as_str()), (Some("elsewhere"), "is unexpected"));
    Ok(())
}

#[test]
fn incomplete_line_is_not_acknowledged() -> TestResult {
    let data = TempDataDir::new()?;
    let recording =
        record(&data, &["ack:one", "partial:tw", "partial:o", "ack:", "partial:three"])?;
    assert_eq!(recording.acknowledged(&recording.end()), ["one", "two"]);
    let first = recording.cut_points().into_iter().find(|point| point.label.contains("one"));
    let first =
        first.filter(|point| point.side == CutSide::Before).ok_or("no point before `one`")?;
    assert!(recording.acknowledged(&first).is_empty());
    Ok(())
}
