//! Extraction of a typed record: the schema comes from the struct, the values from the text.
//!
//! cargo run --release --example extract_records

use ffwd::Engine;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Invoice {
    invoice_number: String,
    vendor: String,
    customer: String,
    total: f64,
    currency: Currency,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Currency {
    Eur,
    Usd,
    Gbp,
    Chf,
}

fn main() -> ffwd::Result<()> {
    let text = include_str!("data/invoice.txt");
    let engine = Engine::embedded()?;
    let (invoice, stats) = engine.extract_with_stats::<Invoice>(text)?;
    println!(
        "{} bills {} {:.2} {:?} with invoice {}",
        invoice.vendor, invoice.customer, invoice.total, invoice.currency, invoice.invoice_number
    );
    println!(
        "{} tokens in {} forwards: {} forced, {} of {} drafted tokens accepted, {:.0} ms",
        stats.tokens,
        stats.forwards,
        stats.forced,
        stats.accepted,
        stats.drafted,
        stats.seconds * 1e3
    );
    Ok(())
}
