//! Counts sessions, messages, tokens and tool calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnstone_core::model::{AssistantMessage, MessageBody, PartBody, SessionUsage, TokenCounts};
use turnstone_core::wire;
use turnstone_store::{ReadTx, SessionFilter, SessionRow, StoreError};

use crate::time_format;

/// Sessions per page.
const SESSION_PAGE_SIZE: usize = 200;
/// Messages per page.
const MESSAGE_PAGE_SIZE: usize = 500;

/// Counts over some sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionStats {
    /// Sessions, including archived and child sessions.
    pub(super) sessions: usize,
    /// Messages.
    pub(super) messages: usize,
    /// Total usage of the sessions.
    pub(super) usage: SessionUsage,
    /// Total tokens per session.
    pub(super) tokens: Vec<i64>,
    /// First creation and last update.
    pub(super) range: Option<(i64, i64)>,
    /// By provider and model.
    pub(super) models: BTreeMap<String, ModelCount>,
    /// Calls by tool.
    pub(super) tools: BTreeMap<String, ToolCount>,
}

/// Messages and usage of a model.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelCount {
    /// Messages.
    pub(super) messages: usize,
    /// Usage of these messages.
    pub(super) usage: SessionUsage,
}

/// Calls of a tool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToolCount {
    /// Calls.
    pub(super) calls: usize,
    /// Failed calls.
    pub(super) errors: usize,
}

impl SessionStats {
    /// Counts the sessions that pass `filter`.
    pub(super) fn collect(reader: &ReadTx<'_>, filter: &SessionFilter) -> Result<Self, StoreError> {
        let mut stats = Self::default();
        let mut cursor = None;
        loop {
            let page = reader.sessions().list(filter, cursor.as_deref(), SESSION_PAGE_SIZE)?;
            for row in &page.items {
                stats.count_session(row);
                stats.count_messages(reader, row)?;
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(stats);
            }
        }
    }

    fn count_session(&mut self, row: &SessionRow) {
        let (cost, tokens) = wire::cost_and_tokens(&row.session, row.usage);
        let tokens = serde_json::from_value::<TokenCounts>(tokens).unwrap_or_default();
        let usage = SessionUsage::from_step(&cost, &tokens);
        self.sessions += 1;
        self.usage = self.usage.plus(usage);
        self.tokens.push(all_tokens(usage));
        let created = time_format::number_to_millis(&row.session.time.created);
        let updated = time_format::number_to_millis(&row.session.time.updated);
        let (first, last) = self.range.unwrap_or((created, updated));
        self.range = Some((first.min(created), last.max(updated)));
    }

    fn count_messages(&mut self, reader: &ReadTx<'_>, row: &SessionRow) -> Result<(), StoreError> {
        let mut before = None;
        loop {
            let page =
                reader.messages().list(&row.session.id, before.as_deref(), MESSAGE_PAGE_SIZE)?;
            for item in &page.items {
                self.messages += 1;
                if let MessageBody::Assistant(assistant) = &item.message.body {
                    self.count_model(assistant);
                }
                for part in &item.parts {
                    if let PartBody::Tool(tool) = &part.body {
                        let count = self.tools.entry(tool.tool.clone()).or_default();
                        count.calls += 1;
                        let failed =
                            matches!(tool.state, turnstone_core::model::ToolState::Error { .. });
                        count.errors += usize::from(failed);
                    }
                }
            }
            before = page.before;
            if before.is_none() {
                return Ok(());
            }
        }
    }

    fn count_model(&mut self, assistant: &AssistantMessage) {
        let name = format!("{}/{}", assistant.provider, assistant.model);
        let count = self.models.entry(name).or_default();
        count.messages += 1;
        count.usage = count.usage.plus(SessionUsage::from_step(&assistant.cost, &assistant.tokens));
    }

    /// Models, most messages first.
    pub(super) fn busiest_models(&self, limit: usize) -> Vec<(&str, &ModelCount)> {
        let mut models: Vec<_> = self.models.iter().map(|(name, n)| (name.as_str(), n)).collect();
        models.sort_by(|a, b| b.1.messages.cmp(&a.1.messages).then(a.0.cmp(b.0)));
        models.truncate(limit);
        models
    }

    /// Tools, most calls first.
    pub(super) fn busiest_tools(&self, limit: usize) -> Vec<(&str, ToolCount)> {
        let mut tools: Vec<_> = self.tools.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        tools.sort_by(|a, b| b.1.calls.cmp(&a.1.calls).then(a.0.cmp(b.0)));
        tools.truncate(limit);
        tools
    }

    /// Average and median of tokens per session.
    pub(super) fn tokens_per_session(&self) -> (f64, f64) {
        let mut sorted = self.tokens.clone();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0) as f64;
        let (len, half) = (sorted.len(), sorted.len() / 2);
        let median =
            if len % 2 == 1 { at(half) } else { (at(half.saturating_sub(1)) + at(half)) / 2.0 };
        let average = all_tokens(self.usage) as f64 / len.max(1) as f64;
        (average, median)
    }
}

/// Sum over all kinds of tokens.
pub(super) fn all_tokens(usage: SessionUsage) -> i64 {
    let kinds = [usage.output, usage.reasoning, usage.cache_read, usage.cache_write];
    kinds.into_iter().fold(usage.input, i64::saturating_add)
}

/// Usage as JSON, with OpenCode's keys.
pub(super) fn usage_json(usage: SessionUsage) -> (Value, Value) {
    (json!(usage.cost_number()), wire::tokens_info(usage))
}
