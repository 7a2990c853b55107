//! The blocks of text and reasoning of one answer, on wires that do not number them.

use serde_json::Value;

use crate::model::ModelEvent;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    Reasoning,
}

/// At most one open block of each kind.
#[derive(Debug, Default)]
pub(super) struct AnswerBlocks {
    text: Option<OpenAnswerBlock>,
    reasoning: Option<OpenAnswerBlock>,
    count: usize,
}

#[derive(Debug)]
struct OpenAnswerBlock {
    id: String,
    metadata: Option<Value>,
}

impl AnswerBlocks {
    /// Returns true while a block of that kind is open.
    pub(super) const fn is_open(&self, kind: BlockKind) -> bool {
        match kind {
            BlockKind::Text => self.text.is_some(),
            BlockKind::Reasoning => self.reasoning.is_some(),
        }
    }

    /// Opens a block unless one of that kind is open.
    pub(super) fn open(&mut self, kind: BlockKind, output: &mut Vec<ModelEvent>) {
        self.open_id(kind, output);
    }

    /// Adds text to the open block of that kind, or to a new one.
    pub(super) fn push(&mut self, kind: BlockKind, text: &str, output: &mut Vec<ModelEvent>) {
        if text.is_empty() {
            return;
        }
        let (id, text) = (self.open_id(kind, output), text.to_owned());
        output.push(match kind {
            BlockKind::Text => ModelEvent::TextDelta { id, text },
            BlockKind::Reasoning => ModelEvent::ReasoningDelta { id, text },
        });
    }

    /// Sets what must return to the model with the open block.
    pub(super) fn set_metadata(&mut self, kind: BlockKind, metadata: Value) {
        if let Some(block) = self.slot(kind) {
            block.metadata = Some(metadata);
        }
    }

    /// Ends the open block of that kind.
    pub(super) fn close(&mut self, kind: BlockKind, output: &mut Vec<ModelEvent>) {
        let Some(OpenAnswerBlock { id, metadata }) = self.slot(kind).take() else { return };
        output.push(match kind {
            BlockKind::Text => ModelEvent::TextEnded { id, metadata },
            BlockKind::Reasoning => ModelEvent::ReasoningEnded { id, metadata },
        });
    }

    /// Ends every open block.
    pub(super) fn close_all(&mut self, output: &mut Vec<ModelEvent>) {
        self.close(BlockKind::Reasoning, output);
        self.close(BlockKind::Text, output);
    }

    fn slot(&mut self, kind: BlockKind) -> &mut Option<OpenAnswerBlock> {
        match kind {
            BlockKind::Text => &mut self.text,
            BlockKind::Reasoning => &mut self.reasoning,
        }
    }

    fn open_id(&mut self, kind: BlockKind, output: &mut Vec<ModelEvent>) -> String {
        if let Some(block) = self.slot(kind) {
            return block.id.clone();
        }
        self.count += 1;
        let (id, event) = match kind {
            BlockKind::Text => {
                let id = format!("text-{}", self.count);
                (id.clone(), ModelEvent::TextStarted { id, metadata: None })
            }
            BlockKind::Reasoning => {
                let id = format!("reasoning-{}", self.count);
                (id.clone(), ModelEvent::ReasoningStarted { id, metadata: None })
            }
        };
        output.push(event);
        *self.slot(kind) = Some(OpenAnswerBlock { id: id.clone(), metadata: None });
        id
    }
}
