//! What a model answers, piece by piece, whatever the wire.

use serde_json::Value;

/// One piece of an answer. Ids are unique within the answer and invented where the wire has none.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// A block of reasoning begins.
    ReasoningStarted {
        /// The block.
        id: String,
        /// What must return to the same model.
        metadata: Option<Value>,
    },
    /// More text of a block of reasoning.
    ReasoningDelta {
        /// The block.
        id: String,
        /// The text.
        text: String,
    },
    /// A block of reasoning ends.
    ReasoningEnded {
        /// The block.
        id: String,
        /// What must return to the same model, such as signatures; replaces earlier metadata.
        metadata: Option<Value>,
    },
    /// A block of text begins.
    TextStarted {
        /// The block.
        id: String,
        /// What must return to the same model.
        metadata: Option<Value>,
    },
    /// More text of a block.
    TextDelta {
        /// The block.
        id: String,
        /// The text.
        text: String,
    },
    /// A block of text ends.
    TextEnded {
        /// The block.
        id: String,
        /// What must return to the same model; replaces earlier metadata.
        metadata: Option<Value>,
    },
    /// The arguments of a tool call begin.
    ToolInputStarted {
        /// The provider's name of the call.
        call: String,
        /// The tool.
        tool: String,
    },
    /// More of the arguments of a tool call, as raw text.
    ToolInputDelta {
        /// The provider's name of the call.
        call: String,
        /// A piece of the JSON text.
        text: String,
    },
    /// A tool call is complete: it can start.
    ToolCalled {
        /// The provider's name of the call.
        call: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them, which may be no JSON at all.
        arguments: String,
        /// What must return to the same model.
        metadata: Option<Value>,
    },
    /// The answer is complete. The last event of a successful answer.
    Finished {
        /// Why the model stopped.
        reason: FinishReason,
        /// What the answer used, where the provider said so.
        usage: Option<ModelUsage>,
    },
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The limit of output tokens was reached.
    Length,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The provider withheld the rest.
    ContentFilter,
    /// The provider gave a reason that is not known.
    Unknown,
}

impl FinishReason {
    /// Returns the name that messages and `step-finish` parts carry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool-calls",
            Self::ContentFilter => "content-filter",
            Self::Unknown => "unknown",
        }
    }
}

/// The tokens of one answer as the provider counts them. Counts are inclusive: `input` contains the
/// tokens read from and written to a cache, `output` contains the reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelUsage {
    /// All tokens of the request.
    pub input: u64,
    /// All tokens of the answer.
    pub output: u64,
    /// The tokens of the answer that were reasoning.
    pub reasoning: u64,
    /// The tokens of the request that came from a cache.
    pub cache_read: u64,
    /// The tokens of the request that were written to a cache.
    pub cache_write: u64,
    /// What the provider itself says the answer cost, in dollars.
    pub cost: Option<f64>,
}
