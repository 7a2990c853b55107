//! Output streams: data goes to stdout, messages to stderr.
//!
//! Owns both streams, their colours and their width. No other module writes to them.

mod answer_input;
mod console;
mod output_stream;
mod pager;
mod secret_prompt;
mod spinner;
mod style;
mod table;

pub(crate) use console::{Ui, print_panic_message, show_usage};
pub(crate) use output_stream::LogWriter;
pub(crate) use spinner::ActivitySpinner;
pub(crate) use style::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, ID_STYLE, MATCH_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    apply_style, restore_style_marks,
};
pub(crate) use table::{ColumnKind, TextTable};
