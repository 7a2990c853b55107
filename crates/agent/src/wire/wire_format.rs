//! What every wire does: encode a request, decode the events of its answer.

use serde_json::{Map, Value};

use super::provider_failure::ProviderFailure;
use super::provider_settings::ProviderSettings;
use crate::model::{ModelEvent, ModelRequest};

/// A request as a wire sends it.
#[derive(Debug)]
pub(super) struct EncodedRequest {
    /// The route below the address of the provider, with its query.
    pub(super) route: String,
    /// Headers that say nothing secret.
    pub(super) headers: Vec<(String, String)>,
    /// The name and value of the header with the key.
    pub(super) key_header: Option<(String, String)>,
    /// The body.
    pub(super) body: Map<String, Value>,
}

/// A wire.
pub(super) trait WireFormat: Send + Sync {
    /// Encodes a request.
    fn encode(&self, request: &ModelRequest, settings: &ProviderSettings) -> EncodedRequest;

    /// Returns the decoder of one answer.
    fn decoder(&self) -> Box<dyn AnswerDecoder>;
}

/// Reads one answer.
pub(super) trait AnswerDecoder: Send {
    /// Reads the data of one event and adds what it says to `output`.
    fn read_event(
        &mut self,
        data: &Value,
        output: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderFailure>;

    /// Returns true once the answer needs no further event.
    fn is_complete(&self) -> bool;

    /// Returns true once the answer is whole even if the connection breaks now.
    fn can_end(&self) -> bool;

    /// Ends the answer after its last event: closes what is open and adds `Finished`, or says that
    /// the answer was cut.
    fn finish(&mut self, output: &mut Vec<ModelEvent>) -> Result<(), ProviderFailure>;
}
