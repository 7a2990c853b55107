//! The lines of the input are said to a server; see `check::session`.
#![no_main]

#[path = "../../tests/it/check.rs"]
#[expect(dead_code, reason = "the other target checks messages")]
mod check;
#[path = "../../examples/server/service.rs"]
mod service;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    check::session(String::from_utf8_lossy(data).lines());
});
