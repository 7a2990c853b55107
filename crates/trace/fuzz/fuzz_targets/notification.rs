//! Any words of the kernel are a call, and every call has a meaning.
#![no_main]

#[path = "../../src/call.rs"]
mod call;
#[path = "../../src/filter/mod.rs"]
#[expect(dead_code, reason = "the filter itself is not used here")]
mod filter;

/// What of the crate's module of this name the decoding needs.
mod kernel {
    pub(crate) mod shared_state {
        pub(crate) const NOTIFICATION_WORDS: usize = 10;
    }
}

use call::{CallRequest, Notification};

libfuzzer_sys::fuzz_target!(|words: [u64; kernel::shared_state::NOTIFICATION_WORDS]| {
    let notification = Notification::decode(&words);
    assert_eq!(notification.id, words[0]);
    if let CallRequest::Bind { size, .. } = notification.request() {
        assert!(size <= u64::from(u32::MAX));
    }
});
