//! What happened, in the three forms it is sent: written once, shared by all who read it.

use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::time::{Cursor, Millis};

use super::ident::Place;

/// The directory under which OpenCode tells what belongs to none.
const GLOBAL: &str = "global";

/// The form of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// `/event`: one directory.
    Instance,
    /// `/global/event`: everything, with its directory, and a second time with its number.
    Global,
    /// `/api/event`: everything, in the second form of the interface.
    Api,
}

/// Where something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scene {
    /// The directory; none: it belongs to no directory.
    pub(crate) directory: Option<Arc<str>>,
    /// The project, if it is known.
    pub(crate) project: Option<Arc<str>>,
}

/// The number OpenCode gives an event within its session (R25).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    /// The session.
    pub(crate) session: SessionId,
    /// The number.
    pub(crate) seq: i64,
}

/// One thing clients are told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Its name.
    pub(crate) id: String,
    /// Its type, e.g. `session.updated`.
    pub(crate) kind: String,
    /// What there is to say of it, as JSON.
    pub(crate) properties: String,
    /// Its number, if OpenCode numbers it.
    pub(crate) numbered: Option<Numbered>,
}

/// One frame as it goes over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// Which frame of its happening it is, the same in every form.
    pub(crate) frame: u32,
    /// The frame.
    pub(crate) bytes: Bytes,
}

/// What one event of the log becomes, or one event that is in no log.
#[derive(Debug)]
pub(crate) struct Happening {
    /// The event of the log; for one that is in no log the last before it.
    pub(crate) cursor: Cursor,
    /// True if it is in the log.
    pub(crate) is_logged: bool,
    /// When something was here that compaction took: the moment of it (R25).
    pub(crate) gap: Option<Millis>,
    /// The session it belongs to.
    pub(crate) session: Option<SessionId>,
    scene: Scene,
    told: Vec<Told>,
    shown: [OnceLock<Vec<Shown>>; 3],
}

impl Happening {
    /// What an event of the log becomes.
    pub(crate) fn logged(
        cursor: Cursor,
        session: Option<SessionId>,
        scene: Scene,
        told: Vec<Told>,
    ) -> Self {
        Self { is_logged: true, session, told, ..Self::empty(cursor, scene) }
    }

    /// What is in no log, after the event `cursor`.
    pub(crate) fn passing(cursor: Cursor, scene: Scene, told: Told) -> Self {
        Self { told: vec![told], ..Self::empty(cursor, scene) }
    }

    /// Something that compaction took from the log.
    pub(crate) fn gap(cursor: Cursor, time: Millis) -> Self {
        Self { is_logged: true, gap: Some(time), ..Self::empty(cursor, Scene::default()) }
    }

    fn empty(cursor: Cursor, scene: Scene) -> Self {
        let (told, shown) = (Vec::new(), Default::default());
        Self { cursor, is_logged: false, gap: None, session: None, scene, told, shown }
    }

    /// The same, told again to somebody who may have missed it: without a place, without a number.
    pub(crate) fn retold(mut self) -> Self {
        self.is_logged = false;
        for told in &mut self.told {
            told.numbered = None;
        }
        self
    }

    /// True if nobody is told anything.
    pub(crate) fn is_silent(&self) -> bool {
        self.told.is_empty() && self.gap.is_none()
    }

    /// What of it has a number, and the number.
    pub(crate) fn numbered(&self) -> Option<(&Told, &Numbered)> {
        self.told.iter().find_map(|told| Some((told, told.numbered.as_ref()?)))
    }

    /// About how much memory it takes once it was sent in all forms.
    pub(crate) fn weight(&self) -> usize {
        256 + self.told.iter().map(|told| 256 + 5 * told.properties.len()).sum::<usize>()
    }

    /// True if it happened in `directory`.
    pub(crate) fn is_in(&self, directory: &str) -> bool {
        self.scene.directory.as_deref() == Some(directory)
    }

    /// True if the instance of its directory is gone after it.
    pub(crate) fn is_end(&self) -> bool {
        self.told.iter().any(|told| told.kind == "server.instance.disposed")
    }

    /// The frames of a form; made when somebody first asks.
    pub(crate) fn shown(&self, wire: Wire) -> &[Shown] {
        self.shown[wire as usize].get_or_init(|| self.show(wire))
    }

    fn show(&self, wire: Wire) -> Vec<Shown> {
        let mut frames: Vec<(u32, String)> = Vec::with_capacity(self.told.len() * 2);
        for (nth, told) in self.told.iter().enumerate() {
            let frame = 2 * nth as u32;
            match wire {
                Wire::Instance => frames.push((frame, instance(told))),
                Wire::Api => frames.push((frame, self.api(told))),
                Wire::Global => {
                    frames.push((frame, self.global(&instance(told))));
                    if let Some(numbered) = &told.numbered {
                        frames.push((frame + 1, self.global(&sync(told, numbered))));
                    }
                }
            }
        }
        let last = frames.len().saturating_sub(1);
        let show = |(nth, (frame, json)): (usize, (u32, String))| {
            let inside = (nth < last).then_some(frame);
            let place = self.is_logged.then_some(Place { cursor: self.cursor, frame: inside });
            Shown { frame, bytes: framed(place, &json) }
        };
        frames.into_iter().enumerate().map(show).collect()
    }

    fn global(&self, payload: &str) -> String {
        let directory = text(self.scene.directory.as_deref().unwrap_or(GLOBAL));
        match &self.scene.project {
            Some(project) => {
                let project = text(project);
                format!(r#"{{"directory":{directory},"project":{project},"payload":{payload}}}"#)
            }
            None => format!(r#"{{"directory":{directory},"payload":{payload}}}"#),
        }
    }

    fn api(&self, told: &Told) -> String {
        let (id, kind) = (text(&told.id), text(&told.kind));
        let durable = told.numbered.as_ref().map(|numbered| {
            let (seq, session) = (numbered.seq, text(numbered.session.as_str()));
            format!(r#""durable":{{"aggregateID":{session},"seq":{seq},"version":1}},"#)
        });
        let location = self.scene.directory.as_ref().map(|directory| {
            let directory = text(directory);
            format!(r#""location":{{"directory":{directory}}},"#)
        });
        let (durable, location) = (durable.unwrap_or_default(), location.unwrap_or_default());
        let data = &told.properties;
        format!(r#"{{"id":{id},"type":{kind},{durable}{location}"data":{data}}}"#)
    }
}

/// An event as `/event` shows it.
fn instance(told: &Told) -> String {
    let (id, kind) = (text(&told.id), text(&told.kind));
    format!(r#"{{"id":{id},"type":{kind},"properties":{}}}"#, told.properties)
}

/// An event with its number, as replicas read it.
fn sync(told: &Told, numbered: &Numbered) -> String {
    let id = text(&told.id);
    let (kind, session) = (text(&format!("{}.1", told.kind)), text(numbered.session.as_str()));
    let (seq, data) = (numbered.seq, &told.properties);
    format!(
        r#"{{"type":"sync","syncEvent":{{"id":{id},"type":{kind},"seq":{seq},"aggregateID":{session},"data":{data}}},"id":{id}}}"#
    )
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

/// A frame of a stream, with the place after it if there is one to come back to.
pub(crate) fn framed(place: Option<Place>, json: &str) -> Bytes {
    match place {
        Some(place) => format!("id: {place}\ndata: {json}\n\n").into(),
        None => format!("data: {json}\n\n").into(),
    }
}

/// A frame a stream sends of itself: that it is connected, that it lives.
pub(crate) fn own_frame(wire: Wire, place: Place, told: &Told) -> Bytes {
    let json = match wire {
        Wire::Instance => instance(told),
        Wire::Global => format!(r#"{{"payload":{}}}"#, instance(told)),
        Wire::Api => {
            let (id, kind) = (text(&told.id), text(&told.kind));
            format!(r#"{{"id":{id},"type":{kind},"data":{}}}"#, told.properties)
        }
    };
    framed(Some(place), &json)
}

impl Told {
    /// Something to tell.
    pub(crate) fn new(id: impl Into<String>, kind: &str, properties: &Value) -> Self {
        let (id, kind) = (id.into(), kind.to_owned());
        Self { id, kind, properties: properties.to_string(), numbered: None }
    }

    /// Something that has nothing to say but its name.
    pub(crate) fn bare(id: impl Into<String>, kind: &str) -> Self {
        Self::new(id, kind, &json!({}))
    }
}
