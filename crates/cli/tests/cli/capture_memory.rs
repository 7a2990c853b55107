//! The memory that a capture needs: bounded, however many bytes the files and the user's packs have.

use std::io::Write;

use turnstone_testkit::required_tools;

use crate::fixture::CliFixture;

/// Small files, and the bytes of all files together: half of them are in large files.
const SMALL_FILES: usize = 1500;
const TOTAL_BYTES: usize = 96 << 20;
const LARGE_BYTES: usize = 16 << 20;
/// The program itself, of which a test build has 60 MiB, and what may be in flight; with all packs mapped,
/// a capture needed 196 MiB.
const MAX_PEAK_KIB: u64 = 150 << 10;

/// Starts the program that follows and prints its peak of resident memory in KiB.
const MEASURE: &str = "import resource, subprocess, sys\n\
    subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n\
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n";

/// Writes bytes that cannot be compressed, the same in each run.
fn write_noise(path: &std::path::Path, bytes: usize, seed: &mut u64) {
    fs_err::create_dir_all(path.parent().expect("parent")).expect("folder");
    let mut file = std::io::BufWriter::new(fs_err::File::create(path).expect("created"));
    for _ in 0..bytes / 8 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        file.write_all(&seed.to_le_bytes()).expect("written");
    }
    file.flush().expect("written");
}

#[expect(clippy::disallowed_methods, reason = "programs that tests need, and the one under test")]
fn run_program(case: &CliFixture, name: &std::ffi::OsStr, args: &[&str]) -> String {
    let mut command = std::process::Command::new(name);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("HOME", case.path("home")).env("TURNSTONE_DATA", case.data_dir());
    let output = command.current_dir(case.path("p")).args(args).output().expect("starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn peak_kib(case: &CliFixture) -> u64 {
    let program = assert_cmd::cargo::cargo_bin("turnstone");
    let program = program.to_str().expect("UTF-8");
    let args = ["-c", MEASURE, program, "snapshot", "track"];
    let python =
        required_tools::find_program("python3").expect("python3 is needed for these tests");
    run_program(case, python.as_os_str(), &args).trim().parse().expect("a number")
}

/// Proves R10: the user's packs are linked and then copied without being in memory as a whole.
#[test]
fn capture_memory_does_not_grow_with_content() {
    let case = CliFixture::empty();
    let mut seed = 88_172_645_463_325_252;
    for n in 0..SMALL_FILES {
        let path = case.path(&format!("p/d{}/f{n}", n / 100));
        write_noise(&path, TOTAL_BYTES / 2 / SMALL_FILES, &mut seed);
    }
    for n in 0..TOTAL_BYTES / 2 / LARGE_BYTES {
        write_noise(&case.path(&format!("p/large{n}")), LARGE_BYTES, &mut seed);
    }
    // Linked from the user's pack, and copied by the maintenance at the end.
    let git = |args: &[&str]| {
        let quick = ["-c", "core.compression=0", "-c", "core.bigFileThreshold=1"];
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
        drop(run_program(&case, "git".as_ref(), &[&quick[..], &who, args].concat()));
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "x"]);

    let peak = peak_kib(&case);

    assert!(peak < MAX_PEAK_KIB, "{peak} KiB");
}
