//! Every line of the input is a message, or is refused; see `check::message`.
#![no_main]

#[path = "../../tests/it/check.rs"]
#[expect(dead_code, reason = "the other target checks sessions")]
mod check;
#[path = "../../examples/server/service.rs"]
#[expect(dead_code, reason = "some names are for the tests only")]
mod service;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for line in String::from_utf8_lossy(data).lines() {
        check::message(line);
    }
});
