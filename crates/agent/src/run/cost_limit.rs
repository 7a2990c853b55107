//! A limit of what a run may cost: every request counts, those for titles, summaries and subagents included.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::context::estimate_tokens;
use turnstone_core::model::ModelRef;

use super::settings::{CostFunction, RunAgent, RunLimits, RunModel, RunSettings, SettingsFailure};
use crate::model::{
    ModelCall, ModelError, ModelErrorKind, ModelEvent, ModelEventSink, ModelRequest, ModelUsage,
    Provider,
};
use crate::tool::Tool;

/// Settings whose models are asked only while the limit allows it.
///
/// A request is made only if what was spent, with the price of the request itself, stays within the limit. What the
/// answer costs is known when it is there, so one answer can exceed the limit; the next request is refused then.
pub struct CostLimitedSettings {
    settings: Arc<dyn RunSettings>,
    account: Arc<CostAccount>,
}

impl CostLimitedSettings {
    /// Returns settings with a limit in dollars.
    #[must_use]
    pub fn new(settings: Arc<dyn RunSettings>, limit: f64) -> Self {
        Self { settings, account: Arc::new(CostAccount { limit, spent: Mutex::default() }) }
    }

    fn limited(&self, model: RunModel) -> RunModel {
        let provider = LimitedProvider {
            provider: model.provider,
            account: self.account.clone(),
            cost: model.cost.clone(),
        };
        RunModel { provider: Arc::new(provider), ..model }
    }
}

impl RunSettings for CostLimitedSettings {
    fn agent(&self, directory: &Path, name: &str) -> Result<RunAgent, SettingsFailure> {
        self.settings.agent(directory, name)
    }

    fn model(
        &self,
        directory: &Path,
        model: &ModelRef,
        agent: &RunAgent,
    ) -> Result<RunModel, SettingsFailure> {
        self.settings.model(directory, model, agent).map(|model| self.limited(model))
    }

    fn small_model(&self, directory: &Path, model: &ModelRef) -> Option<RunModel> {
        self.settings.small_model(directory, model).map(|model| self.limited(model))
    }

    fn limits(&self, directory: &Path) -> Result<RunLimits, SettingsFailure> {
        self.settings.limits(directory)
    }

    fn instructions(&self, directory: &Path, worktree: &Path) -> Vec<(String, String)> {
        self.settings.instructions(directory, worktree)
    }

    fn tools(&self, directory: &Path) -> Vec<Arc<dyn Tool>> {
        self.settings.tools(directory)
    }
}

/// What was spent, and what may be.
struct CostAccount {
    limit: f64,
    spent: Mutex<f64>,
}

impl CostAccount {
    fn add(&self, cost: f64) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += cost;
    }

    /// Refuses a request of this price if it exceeds the limit.
    fn check(&self, price: Option<f64>) -> Result<(), String> {
        let Some(price) = price else {
            return Err(
                "the prices of the model are unknown, so a limit of the cost cannot be kept; \
                        set them under provider.ID.models.MODEL.cost"
                    .to_owned(),
            );
        };
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        match spent + price > self.limit || spent >= self.limit {
            false => Ok(()),
            true => Err(format!(
                "the limit of ${} is reached: ${spent:.4} are spent, and the next request costs at least ${price:.4}",
                self.limit
            )),
        }
    }
}

/// A provider that counts what its answers cost.
struct LimitedProvider {
    provider: Arc<dyn Provider>,
    account: Arc<CostAccount>,
    cost: CostFunction,
}

impl Provider for LimitedProvider {
    fn start(&self, request: ModelRequest, mut sink: ModelEventSink) -> ModelCall {
        let input = estimate_input(&request);
        let price = (self.cost)(&ModelUsage { input, output: 1, ..ModelUsage::default() });
        if let Err(reason) = self.account.check(price) {
            sink(Err(ModelError::new(ModelErrorKind::Rejected, reason)));
            return ModelCall::new(Box::new(|| {}));
        }
        let (account, cost) = (self.account.clone(), self.cost.clone());
        let mut answered = 0;
        let counting = move |event: Result<ModelEvent, ModelError>| {
            match &event {
                Ok(
                    ModelEvent::TextDelta { text, .. }
                    | ModelEvent::ReasoningDelta { text, .. }
                    | ModelEvent::ToolInputDelta { text, .. },
                ) => answered += text.len() as u64,
                Ok(ModelEvent::Finished { usage, .. }) => {
                    let estimate = || ModelUsage {
                        input,
                        output: answered.div_ceil(4),
                        ..ModelUsage::default()
                    };
                    let usage = usage.unwrap_or_else(estimate);
                    account.add(usage.cost.or_else(|| cost(&usage)).unwrap_or(0.0));
                }
                // Most providers charge nothing for a request that fails.
                Ok(_) | Err(_) => {}
            }
            sink(event);
        };
        self.provider.start(request, Box::new(counting))
    }
}

/// The tokens of a request, estimated.
fn estimate_input(request: &ModelRequest) -> u64 {
    let messages = serde_json::to_string(&request.messages).unwrap_or_default();
    let system: u64 = request.system.iter().map(|text| estimate_tokens(text)).sum();
    let tool = |tool: &crate::model::ToolSchema| {
        estimate_tokens(&tool.description) + estimate_tokens(&tool.parameters.to_string())
    };
    estimate_tokens(&messages) + system + request.tools.iter().map(tool).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_refused_once_the_limit_is_reached() {
        let account = CostAccount { limit: 0.5, spent: Mutex::default() };
        assert_eq!(account.check(Some(0.5)), Ok(()));
        account.add(0.25);
        assert!(account.check(Some(0.26)).is_err());
        assert_eq!(account.check(Some(0.0)), Ok(()));
        account.add(0.25);
        let refused = account.check(Some(0.0)).expect_err("nothing is left");
        assert!(refused.contains("$0.5 is reached: $0.5000 are spent"), "{refused}");
        assert!(account.check(None).expect_err("unknown").contains("unknown"));
    }
}
