//! The headline test as a benchmark: two agents and a person on many files, processes that die.

use std::process::Command;

use serde_json::Value;

use crate::Fallible;
use crate::snapshot::{GOAL_FILES, machine_load};
use crate::turn_benchmark::parse_number;

/// Plays so many seeds and says what happened; a broken promise is an error.
pub(crate) fn run(words: &[String]) -> Fallible {
    let files = parse_number(words, "--files")?.unwrap_or(GOAL_FILES);
    let steps = parse_number(words, "--steps")?.unwrap_or(160);
    let seeds = parse_number(words, "--seeds")?.unwrap_or(1);
    let program = std::env::current_exe()?.with_file_name("examples").join("headline");
    if !program.exists() {
        let build = "cargo build --release -p turnstone-engine --example headline";
        return Err(format!("the play is not built: {build}").into());
    }
    println!("two agents and a person on {files} files, {steps} orders, some of them deadly");
    println!("load of the machine at the start: {}", machine_load()?);
    println!("\n| seed | seconds | what happened | undo reverted exactly its own changes |");
    println!("|---|---|---|---|");
    let mut broken = 0;
    for seed in 1..=seeds {
        let words = ["play".to_owned(), seed.to_string(), steps.to_string(), files.to_string()];
        let played = Command::new(&program).args(&words).output()?;
        if !played.status.success() {
            broken += 1;
            let why = String::from_utf8_lossy(&played.stderr);
            println!("| {seed} | | {} | NO |", why.trim());
            continue;
        }
        let result: Value = serde_json::from_slice(&played.stdout)?;
        let seconds = result["seconds"].as_f64().ok_or("the play says no time")?;
        let counts = result["counts"].as_object().ok_or("the play counts nothing")?;
        let counts: Vec<String> = counts.iter().map(|(what, n)| format!("{n} {what}")).collect();
        println!("| {seed} | {seconds:.0} | {} | yes |", counts.join(", "));
    }
    match broken {
        0 => {
            println!("\nreached: nothing of a person or of another session was taken along");
            Ok(())
        }
        broken => Err(format!("not reached: {broken} of {seeds} plays broke a promise").into()),
    }
}
