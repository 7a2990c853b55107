//! Upkeep: what is pinned stays, what is not goes, and small packs become one.

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use support::{Case, NOW, path};
use turnstone_snapshot::{Group, Image};

const HOUR: i64 = 3_600_000;

#[test]
fn gc_drops_groups_that_are_not_live_and_keeps_the_others_whole_r9() {
    let mut case = Case::new();
    let (stays, goes) = (Group::new("stays"), Group::new("goes"));
    case.write("shared", "in both");
    case.write("a", "only in the one that goes");
    let gone = case.shadow.capture(&goes, NOW).unwrap().capture;
    case.write("a", "kept");
    let kept = case.shadow.capture(&stays, NOW).unwrap().capture;
    let live = [stays.clone()].into();
    let later = NOW.plus(HOUR + 1);

    let plan = case.shadow.gc(&live, later, true).unwrap();
    assert_eq!(plan.dropped_groups, ["goes"]);
    assert!(case.shadow.get_capture(&gone.id).is_ok(), "a dry run changes nothing");
    let report = case.shadow.gc(&live, later, false).unwrap();

    assert_eq!(report.dropped_objects, plan.dropped_objects);
    assert!(report.bytes_after < report.bytes_before);
    assert!(case.shadow.get_capture(&gone.id).is_err());
    assert_eq!(case.shadow.usage().unwrap().groups, 1);
    for reopened in [false, true] {
        if reopened {
            case.reopen();
        }
        let capture = case.shadow.get_capture(&kept.id).unwrap();
        assert!(matches!(case.shadow.image(&capture, &path("a")), Ok(Image::Present { .. })));
        case.git(&["fsck", "--full"]);
    }
}

#[test]
fn gc_never_drops_a_young_group_r9() {
    let case = Case::new();
    case.write("a", "1");
    let capture = case.capture().capture;

    let report = case.shadow.gc(&[].into(), NOW.plus(HOUR - 1), false).unwrap();

    assert!(report.dropped_groups.is_empty());
    assert!(case.shadow.get_capture(&capture.id).is_ok());
}

#[test]
fn a_file_whose_bytes_were_collected_is_read_again() {
    let mut case = Case::new();
    case.write("a", "1");
    std::thread::sleep(std::time::Duration::from_millis(150));
    let before = case.shadow.capture(&Group::new("goes"), NOW).unwrap().capture;
    case.shadow.gc(&[].into(), NOW.plus(2 * HOUR), false).unwrap();
    assert!(case.shadow.get_capture(&before.id).is_err());

    for _ in 0..2 {
        let after = case.capture().capture;
        assert_eq!(after.tree, before.tree);
        assert!(matches!(case.shadow.image(&after, &path("a")), Ok(Image::Present { .. })));
        case.git(&["fsck", "--full"]);
        case.reopen();
    }
}

#[test]
fn many_packs_become_few_and_every_capture_stays_readable() {
    let case = Case::new();
    let made: Vec<_> = (0..300)
        .map(|round| {
            case.write("a", format!("{round}"));
            case.capture().capture
        })
        .collect();

    assert!(case.shadow.usage().unwrap().packs <= 130);
    case.shadow.merge_packs().unwrap();
    assert_eq!(case.shadow.usage().unwrap().packs, 1);
    for (round, capture) in made.iter().enumerate() {
        let capture = case.shadow.get_capture(&capture.id).unwrap();
        let text = case.shadow.image(&capture, &path("a")).unwrap().leaf().unwrap().blob;
        if round % 100 == 0 {
            assert_eq!(case.git(&["show", &text.to_string()]), format!("{round}"));
        }
    }
    case.git(&["fsck", "--full"]);
}

#[test]
fn gc_after_git_gc_forgets_what_git_wrote_about_it() {
    let case = Case::new();
    for round in 0..4 {
        case.write("a", format!("{round}"));
        case.shadow.capture(&Group::new(&format!("g{}", round % 2)), NOW).unwrap();
    }
    case.git(&["-c", "gc.writeCommitGraph=true", "gc", "-q"]);
    let live = [Group::new("g1")].into();

    let report = case.shadow.gc(&live, NOW.plus(2 * HOUR), false).unwrap();

    assert_eq!(report.dropped_groups, ["g0"]);
    assert_eq!(case.shadow.list_captures(&Group::new("g1")).unwrap().len(), 2);
    assert!(case.shadow.list_captures(&Group::new("g0")).unwrap().is_empty());
    case.git(&["fsck", "--full"]);
}

#[test]
fn a_collection_cut_off_leaves_no_file_believed_to_be_stored() {
    let mut case = Case::new();
    case.write("a", "1");
    std::thread::sleep(std::time::Duration::from_millis(150));
    case.shadow.capture(&Group::new("goes"), NOW).unwrap();
    let scenario = fail::FailScenario::setup();
    fail::cfg("snapshot::pack_hidden", "return").unwrap();
    case.shadow.gc(&[].into(), NOW.plus(2 * HOUR), false).unwrap_err();
    scenario.teardown();

    case.reopen();
    let after = case.capture();

    assert!(matches!(case.shadow.image(&after.capture, &path("a")), Ok(Image::Present { .. })));
    case.git(&["fsck", "--full"]);
}

/// Captures, collections, repacks and git's own gc, all at once.
#[test]
fn nothing_pinned_is_lost_while_everybody_tidies_up_at_once_r9() {
    let case = Case::new();
    let (live, goes) = (Group::new("live"), Group::new("goes"));
    let pinned = [live.clone()].into();
    let later = NOW.plus(2 * HOUR);
    let rounds = std::sync::atomic::AtomicUsize::new(0);
    let is_over = || rounds.load(std::sync::atomic::Ordering::SeqCst) >= 40;

    let made = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut made = Vec::new();
            for round in 0..40 {
                case.write(&format!("d{}/f", round % 5), format!("{}\n", round / 2).repeat(300));
                made.push(case.shadow.capture(&live, NOW).unwrap().capture);
                rounds.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
            made
        });
        let named = scope.spawn(|| {
            let mut made = Vec::new();
            while !is_over() {
                case.write("named", format!("{}", made.len() % 7));
                let paths = [path("named")].into();
                case.shadow.capture_named(&goes, &paths, false, NOW).unwrap();
                made.push(case.shadow.capture_named(&live, &paths, false, NOW).unwrap().capture);
            }
            made
        });
        scope.spawn(|| {
            while !is_over() {
                case.shadow.gc(&pinned, later, false).unwrap();
                case.shadow.repack(64 << 20).unwrap();
            }
        });
        let mut made = writer.join().unwrap();
        made.extend(named.join().unwrap());
        made
    });

    case.git(&["gc", "-q", "--prune=now"]);
    for capture in &made {
        let found = case.shadow.get_capture(&capture.id).unwrap();
        assert_eq!(found.tree, capture.tree);
        case.shadow.image(&found, &path("d0/f")).unwrap();
    }
    case.git(&["fsck", "--full"]);
}

#[test]
fn captures_while_git_itself_collects_lose_nothing_r11() {
    let case = Case::new();
    let group = Group::new("live");
    let made = std::thread::scope(|scope| {
        let git = scope.spawn(|| (0..4).for_each(|_| drop(case.git(&["gc", "-q", "--prune=now"]))));
        let mut made = Vec::new();
        while !git.is_finished() {
            case.write("a", format!("{}", made.len()).repeat(100));
            let paths = [path("a")].into();
            made.push(case.shadow.capture_named(&group, &paths, false, NOW));
        }
        git.join().unwrap();
        made
    });

    let made: Vec<_> = made.into_iter().map(|it| it.unwrap().capture).collect();
    for capture in &made {
        let found = case.shadow.get_capture(&capture.id).unwrap();
        assert!(matches!(case.shadow.image(&found, &path("a")), Ok(Image::Present { .. })));
    }
    case.shadow.repack(64 << 20).unwrap();
    case.git(&["fsck", "--full"]);
}

#[test]
fn captures_go_on_during_a_collection_and_keep_what_they_come_to_need_r6() {
    let case = Case::new();
    let (stays, goes) = (Group::new("stays"), Group::new("goes"));
    case.write("a", "only the group that goes needs it, so far");
    case.shadow.capture(&goes, NOW).unwrap();
    case.write("b", "of a group that stays");
    case.remove("a");
    case.shadow.capture(&stays, NOW).unwrap();
    case.shadow.merge_packs().unwrap();
    let live = [stays.clone()].into();
    let scenario = fail::FailScenario::setup();
    fail::cfg("snapshot::repacked", "pause").unwrap();

    let made = std::thread::scope(|scope| {
        let gc = scope.spawn(|| case.shadow.gc(&live, NOW.plus(2 * HOUR), false).unwrap());
        while case.shadow.usage().unwrap().packs < 2 {
            std::thread::yield_now();
        }
        // The new pack is there, without these bytes; the old one still has them.
        case.write("a", "only the group that goes needs it, so far");
        let whole = case.shadow.capture(&stays, NOW).unwrap().capture;
        let paths = [path("a")].into();
        let named = case.shadow.capture_named(&stays, &paths, false, NOW).unwrap().capture;
        assert!(!gc.is_finished());
        fail::remove("snapshot::repacked");
        assert_eq!(gc.join().unwrap().dropped_groups, ["goes"]);
        [whole, named]
    });

    scenario.teardown();
    for capture in made {
        let blob = case.shadow.image(&capture, &path("a")).unwrap().leaf().unwrap().blob;
        let text = case.git(&["cat-file", "blob", &blob.to_string()]);
        assert_eq!(text, "only the group that goes needs it, so far");
    }
    case.git(&["fsck", "--full"]);
}
