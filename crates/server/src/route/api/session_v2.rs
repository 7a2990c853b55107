//! Sessions in the newer shape.

use serde::Serialize;

use crate::wire_json::StoredJson;

/// A session in the newer shape: fields of the older one, regrouped.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionV2 {
    #[serde(flatten)]
    shared: SharedFields,
    time: SessionTimes,
    location: SessionLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    subpath: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revert: Option<StoredJson>,
}

/// The fields both shapes have.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SharedFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<StoredJson>,
    #[serde(rename = "parentID", skip_serializing_if = "Option::is_none")]
    parent: Option<StoredJson>,
    #[serde(rename = "projectID", skip_serializing_if = "Option::is_none")]
    project: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<StoredJson>,
}

/// When a session was created, changed and archived.
#[derive(Serialize)]
struct SessionTimes {
    created: StoredJson,
    updated: StoredJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived: Option<StoredJson>,
}

/// Where a session works.
#[derive(Serialize)]
struct SessionLocation {
    directory: StoredJson,
}

impl SessionV2 {
    /// Reads the older shape.
    pub(super) fn new(older: &StoredJson) -> Self {
        let time = older.field("time");
        let subpath = older.0["path"].as_str().filter(|path| !path.is_empty());
        Self {
            shared: SharedFields {
                id: older.find("id"),
                parent: older.find("parentID"),
                project: older.find("projectID"),
                agent: older.find("agent"),
                model: older.find("model"),
                cost: older.find("cost"),
                tokens: older.find("tokens"),
                title: older.find("title"),
            },
            time: SessionTimes {
                created: time.field("created"),
                updated: time.field("updated"),
                archived: time.find("archived"),
            },
            location: SessionLocation { directory: older.field("directory") },
            subpath: subpath.map(str::to_owned),
            revert: older.find("revert"),
        }
    }
}
