//! What several test binaries of this crate share.

pub(crate) mod conversation_messages;
