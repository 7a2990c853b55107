//! A program that counts on standard output and dies at the failpoint `count::after_ack`.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    // As after kill -9: no destructor runs.
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    let scenario = fail::FailScenario::setup();
    for number in 1..=10 {
        writeln!(io::stdout(), "{number}")?;
        fail::fail_point!("count::after_ack");
    }
    scenario.teardown();
    Ok(())
}
