//! Sessions: the attributes of one conversation with an agent.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::{ExtraFields, TokenCounts};
use crate::id::{MessageId, PartId, ProjectId, SessionId, WorkspaceId};
use crate::permission::PermissionRule;

/// One session. Its usage is derived from its parts and therefore not a field, see [`SessionUsage`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Names the session.
    pub id: SessionId,
    /// Two random words, used in file names.
    pub slug: String,
    /// The project it belongs to.
    #[serde(rename = "projectID")]
    pub project: ProjectId,
    /// The workspace it runs in, where there is one.
    #[serde(rename = "workspaceID", default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    /// Absolute directory, or empty.
    pub directory: String,
    /// The directory relative to the worktree, `/` separated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The session that started this one as a subagent.
    #[serde(rename = "parentID", default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Where a fork was taken (R40).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ForkOrigin>,
    /// Line counts of what the session changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<ChangeSummary>,
    /// The public link, while shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<SessionShare>,
    /// The title people see.
    pub title: String,
    /// The agent of the newest prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model of the newest prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SessionModel>,
    /// The version of the program that created the session.
    pub version: String,
    /// Free data of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ExtraFields>,
    /// Timestamps.
    pub time: SessionTime,
    /// Rules of this session, appended to the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Vec<PermissionRule>>,
    /// Imported rules: stored for export, not in effect until the user trusts them.
    #[serde(rename = "importedPermission", default, skip_serializing_if = "Vec::is_empty")]
    pub imported_permission: Vec<PermissionRule>,
    /// The revert position, while reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<RevertState>,
    /// Usage a foreign store had counted, see [`ImportedUsage`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_base: Option<ImportedUsage>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Timestamps of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionTime {
    /// When it was created.
    pub created: Number,
    /// When it was last updated.
    pub updated: Number,
    /// When a compaction began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<Number>,
    /// When it was archived; any finite number, as OpenCode accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Number>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Where a fork was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The session it was copied from.
    #[serde(rename = "sessionID")]
    pub session: SessionId,
    /// The first message that was not copied; absent when all were.
    #[serde(rename = "messageID", default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// The sequence number of the original at that moment.
    pub seq: crate::time::SessionSeq,
}

/// Line counts and, in older stores, the diffs themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeSummary {
    /// Lines added.
    pub additions: Number,
    /// Lines removed.
    pub deletions: Number,
    /// Files changed.
    pub files: Number,
    /// The changes, where the store kept them here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diffs: Option<Vec<SessionFileDiff>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The change of one file; lenient, because old stores left fields out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionFileDiff {
    /// The file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The patch in jsdiff form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Lines added.
    pub additions: Number,
    /// Lines removed.
    pub deletions: Number,
    /// `added`, `deleted` or `modified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// `before` and `after` of 1.2.10, and fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The public side of a share; its secret is kept apart and never leaves the store's owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionShare {
    /// The link.
    pub url: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The model a session prefers. The key is `id` here and `modelID` in messages, as in OpenCode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionModel {
    /// The model.
    pub id: String,
    /// Who serves it.
    #[serde(rename = "providerID")]
    pub provider: String,
    /// Its variant; the word `default` when none was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl SessionModel {
    /// True for the same model in the same variant.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let variant = |model: &Self| model.variant.clone().unwrap_or_else(|| "default".to_owned());
        (&self.id, &self.provider) == (&other.id, &other.provider)
            && variant(self) == variant(other)
    }
}

/// Position of a reverted conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevertState {
    /// The first reverted message.
    #[serde(rename = "messageID")]
    pub message: MessageId,
    /// The first reverted part, if the message is only partly reverted.
    #[serde(rename = "partID", default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartId>,
    /// The tree that an unrevert restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What the revert changed on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Cost and tokens of a session, counted from its step-finish parts.
///
/// Kept in whole numbers (cost in 10⁻¹² of the currency) so that sums are exact in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUsage {
    /// Cost in 10⁻¹² units.
    pub cost: i64,
    /// Tokens sent.
    pub input: i64,
    /// Tokens received.
    pub output: i64,
    /// Tokens of reasoning.
    pub reasoning: i64,
    /// Tokens read from a cache.
    pub cache_read: i64,
    /// Tokens written to a cache.
    pub cache_write: i64,
}

const COST_UNIT: f64 = 1e12;

impl SessionUsage {
    /// Counts what one step reported.
    #[must_use]
    pub fn from_step(cost: &Number, tokens: &TokenCounts) -> Self {
        Self {
            cost: clamp_step_value((cost.as_f64().unwrap_or(0.0) * COST_UNIT).round() as i64),
            input: to_step_value(&tokens.input),
            output: to_step_value(&tokens.output),
            reasoning: to_step_value(&tokens.reasoning),
            cache_read: to_step_value(&tokens.cache.read),
            cache_write: to_step_value(&tokens.cache.write),
        }
    }

    /// Returns the sum of both; saturates rather than wraps on absurd input.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, i64::saturating_add)
    }

    /// Returns the difference of both.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.zip(other, i64::saturating_sub)
    }

    fn zip(self, other: Self, f: impl Fn(i64, i64) -> i64) -> Self {
        Self {
            cost: f(self.cost, other.cost),
            input: f(self.input, other.input),
            output: f(self.output, other.output),
            reasoning: f(self.reasoning, other.reasoning),
            cache_read: f(self.cache_read, other.cache_read),
            cache_write: f(self.cache_write, other.cache_write),
        }
    }

    /// The cost as OpenCode writes it.
    #[must_use]
    pub fn cost_number(self) -> Number {
        json_number(self.cost as f64 / COST_UNIT)
    }
}

/// Usage that a foreign store recorded for an imported session, and the sum of its parts at that time.
///
/// While the parts still add up to `counted`, the foreign values are shown unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedUsage {
    /// The imported cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Number>,
    /// The imported tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCounts>,
    /// The sum over the imported step-finish parts.
    pub counted: SessionUsage,
}

fn to_step_value(n: &Number) -> i64 {
    clamp_step_value(n.as_i64().unwrap_or_else(|| n.as_f64().unwrap_or(0.0).round() as i64))
}

/// One step counts for at most this much, so that no honest number of steps overflows a sum.
const MAX_STEP_VALUE: i64 = 1_000_000_000_000_000;

fn clamp_step_value(n: i64) -> i64 {
    n.clamp(-MAX_STEP_VALUE, MAX_STEP_VALUE)
}

/// The JSON number of `value`: whole where it is whole, as JavaScript writes it.
#[must_use]
pub(crate) fn json_number(value: f64) -> Number {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Number::from(value as i64);
    }
    Number::from_f64(value).unwrap_or_else(|| Number::from(0))
}
