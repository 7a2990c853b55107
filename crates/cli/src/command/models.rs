//! `turnstone models`: the models that can be used.

use serde_json::{Value, json};
use turnstone_config::{
    Configuration, ModelProfile, ModelStatus, ModelWire, ProviderProfile, TokenPrices,
};

use crate::app::CliApp;
use crate::configuration::load_configuration;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::{ColumnKind, TextTable, Ui};

/// List the models that agents can use
///
/// The list comes from the catalogue that is shipped with Turnstone, from your own file of models and
/// from the configuration. It needs no network. Prices are in dollars per million tokens; a price
/// that is not known is shown as `?` and never counted as zero.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone models\n  turnstone models anthropic --all")]
pub(crate) struct ModelsArgs {
    /// Show this provider only
    provider: Option<String>,

    /// Also show providers without a key, and deprecated and alpha models
    #[arg(long)]
    all: bool,
}

/// A model with its provider.
type ListedModel<'c> = (&'c ProviderProfile, &'c ModelProfile);

/// Lists the models.
///
/// # Errors
///
/// The configuration has a mistake, or there is no such provider.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &ModelsArgs) -> Result<ProgramExit, CliError> {
    let (config, _) = load_configuration(app, app.directory()?)?;
    if let Some(wanted) = &args.provider {
        let known: Vec<&str> = config.providers().iter().map(|it| it.id.as_str()).collect();
        if !known.contains(&wanted.as_str()) {
            return Err(CliError::Refused {
                what: format!("there is no provider \"{wanted}\""),
                hint: Some(format!("known are {}", known.join(", "))),
            });
        }
    }
    let listed = list_models(&config, args);
    let default = config.default_model(None).map(|name| name.to_string());
    if ui.wants_json() {
        let models: Vec<Value> = listed.iter().map(|it| model_json(*it)).collect();
        ui.print_json(&json!({ "models": models, "default": default }))?;
        return Ok(ProgramExit::Ok);
    }
    if listed.is_empty() {
        ui.print_note("no provider has a key");
        ui.print_hint("run `turnstone auth set PROVIDER`, or `turnstone models --all` for all");
        return Ok(ProgramExit::Ok);
    }
    print_models(ui, &listed, default.as_deref())?;
    Ok(ProgramExit::Ok)
}

fn list_models<'c>(config: &'c Configuration, args: &ModelsArgs) -> Vec<ListedModel<'c>> {
    let is_wanted = |provider: &&ProviderProfile| match &args.provider {
        Some(wanted) => provider.id == *wanted && (args.all || provider.is_available()),
        None => args.all || provider.is_available(),
    };
    let is_listed = |model: &&ModelProfile| {
        args.all || matches!(model.status, ModelStatus::Active | ModelStatus::Beta)
    };
    let providers = config.providers().iter().filter(is_wanted);
    providers
        .flat_map(|it| it.models.iter().filter(is_listed).map(move |model| (it, model)))
        .collect()
}

fn print_models(
    ui: &mut Ui,
    listed: &[ListedModel<'_>],
    default: Option<&str>,
) -> Result<(), CliError> {
    let mut grid = TextTable::new(&[
        ("MODEL", ColumnKind::Text),
        ("NAME", ColumnKind::Truncated),
        ("CONTEXT", ColumnKind::Number),
        ("INPUT", ColumnKind::Number),
        ("OUTPUT", ColumnKind::Number),
        ("", ColumnKind::Text),
    ]);
    for (provider, model) in listed {
        let name = format!("{}/{}", provider.id, model.id);
        let note = match (default == Some(name.as_str()), provider.is_available()) {
            (true, _) => "default",
            (false, false) => "no key",
            (false, true) if model.status == ModelStatus::Active => "",
            (false, true) => model.status.as_str(),
        };
        let TokenPrices { input, output, .. } = model.prices.base;
        grid.add_row(&[
            name,
            model.name.clone(),
            known_count(model.limits.context).map_or_else(unknown, format_tokens),
            input.map_or_else(unknown, format_price),
            output.map_or_else(unknown, format_price),
            note.to_owned(),
        ]);
    }
    ui.print_table(&grid)
}

/// A number of tokens; nothing if it is not known.
fn known_count(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

fn unknown() -> String {
    "?".to_owned()
}

fn format_tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

fn format_price(price: f64) -> String {
    // Two digits are usual; prices below a cent need more.
    let text = format!("{price:.4}");
    let short = text.trim_end_matches('0');
    let digits = short.split_once('.').map_or(0, |(_, digits)| digits.len());
    if digits < 2 { format!("${price:.2}") } else { format!("${short}") }
}

fn model_json((provider, model): ListedModel<'_>) -> Value {
    let prices = |prices: &TokenPrices| {
        json!({ "input": prices.input, "output": prices.output,
            "cache_read": prices.cache_read, "cache_write": prices.cache_write })
    };
    let mut cost = prices(&model.prices.base);
    let tiers = model.prices.tiers.iter();
    let tiers: Vec<Value> = tiers
        .map(|tier| json!({ "above_input_tokens": tier.above, "cost": prices(&tier.prices) }))
        .collect();
    cost["tiers"] = Value::from(tiers);
    let package = model.package.as_deref().unwrap_or(&provider.package);
    let variants: Vec<&str> = model.variants.iter().map(|(name, _)| name.as_str()).collect();
    json!({
        "model": format!("{}/{}", provider.id, model.id), "name": model.name,
        "provider": provider.name, "available": provider.is_available(),
        "wire": ModelWire::of_package(package).map(ModelWire::as_str), "status": model.status.as_str(),
        "context": known_count(model.limits.context), "input_limit": known_count(model.limits.input),
        "output_limit": known_count(model.limits.output), "reasoning": model.has_reasoning,
        "tools": model.has_tools, "input": model.input, "output": model.output,
        "variants": variants, "cost": cost, "release_date": model.release_date,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact() {
        let prices = [15.0, 0.3, 0.075, 0.003_6].map(format_price);
        assert_eq!(prices, ["$15.00", "$0.30", "$0.075", "$0.0036"]);
        assert_eq!([8_192, 200_000, 1_050_000].map(format_tokens), ["8k", "200k", "1.0M"]);
    }
}
