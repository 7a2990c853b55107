//! The supervisor of the commands that the tests of this crate start.

fn main() {
    #[expect(clippy::disallowed_methods, reason = "an example is a program")]
    std::process::exit(turnstone_process::run_supervisor())
}
