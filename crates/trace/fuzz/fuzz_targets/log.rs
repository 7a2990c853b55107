//! Any bytes are a log, or are refused; what is read is what its records say.
#![no_main]

use turnstone_trace::TraceLog;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(log) = TraceLog::decode(data) else { return };
    assert!(log.touches_of_command <= log.touches.len());
    assert!(log.touches_after_command().len() <= log.touches.len());
    // A record takes more bytes than an element of these lists may cost without end.
    let elements = log.touches.len() + log.gaps.len() + log.remaining.len();
    assert!(elements <= data.len());
    // What follows a log that is still written never changes what was read of it.
    let longer = [data, &[0xff; 4]].concat();
    if let Ok(longer) = TraceLog::decode(&longer) {
        assert_eq!(longer, log);
    }
});
