//! An agent that books invoices by tool calls, in several steps.
//!
//! Each step has its own tools: the numbers of the invoices that are not booked are the only values
//! that the model may write, and it can close the ledger only when all are booked. So the model
//! decides the order and the accounts, and cannot forget, repeat or invent an invoice. Amounts come
//! from the records, and the program adds them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ffwd::constraint::Policy;
use ffwd::constraint::tools::{Calls, ToolChoice, ToolStyle, Tools};
use ffwd::{ChatOptions, Engine, Error, ErrorKind, Message, Prompt, Request, Result};
use serde_json::{Value, json};

const ACCOUNTS: [&str; 4] = ["office", "transport", "printing", "other"];

/// An invoice that waits for its entry.
#[derive(Debug, Clone)]
pub(crate) struct Invoice {
    pub number: String,
    pub vendor: String,
    pub cents: i64,
    pub currency: String,
}

impl Invoice {
    /// Reads a record of the invoice schema.
    pub(crate) fn new(record: &Value) -> Result<Invoice> {
        let text = |name: &str| record[name].as_str().map(str::to_owned);
        let cents = record["total"].as_f64().map(|total| (total * 100.0).round() as i64);
        match (text("invoice_number"), text("vendor"), cents, text("currency")) {
            (Some(number), Some(vendor), Some(cents), Some(currency)) => {
                Ok(Invoice { number, vendor, cents, currency })
            }
            _ => Err(Error::new(ErrorKind::InvalidJson, "not a record of an invoice")),
        }
    }
}

/// An entry of the ledger.
struct LedgerEntry {
    invoice: Invoice,
    account: String,
}

/// The booked invoices, in the order of their entries.
#[derive(Default)]
pub(crate) struct Ledger(Vec<LedgerEntry>);

impl Ledger {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the sum of each currency as text.
    pub(crate) fn totals(&self) -> String {
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for entry in &self.0 {
            *sums.entry(&entry.invoice.currency).or_default() += entry.invoice.cents;
        }
        let texts = sums.iter().map(|(currency, cents)| format!("{:.2} {currency}", *cents as f64 / 100.0));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Checks that the ledger has each invoice once.
    pub(crate) fn check(&self, invoices: &[Invoice]) -> Result<()> {
        let cents = |invoices: &mut dyn Iterator<Item = &Invoice>| invoices.map(|i| i.cents).sum::<i64>();
        let booked = cents(&mut self.0.iter().map(|entry| &entry.invoice));
        match self.len() == invoices.len() && booked == cents(&mut invoices.iter()) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidReply, "the ledger differs from the invoices")),
        }
    }

    /// Writes the ledger as CSV, with the sum of each account at the end.
    pub(crate) fn write(&self, to: &Path) -> std::io::Result<()> {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut lines = vec!["account,invoice,vendor,amount,currency".to_owned()];
        let mut sums: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for LedgerEntry { invoice, account } in &self.0 {
            let (number, vendor) = (quoted(&invoice.number), quoted(&invoice.vendor));
            let amount = invoice.cents as f64 / 100.0;
            lines.push(format!("{account},{number},{vendor},{amount:.2},{}", invoice.currency));
            *sums.entry((account, &invoice.currency)).or_default() += invoice.cents;
        }
        for ((account, currency), cents) in sums {
            lines.push(format!("{account},total,,{:.2},{currency}", cents as f64 / 100.0));
        }
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(to, lines.join("\n") + "\n")
    }
}

/// Lets the model book all invoices.
pub(crate) fn book(engine: &Engine, invoices: &[Invoice]) -> Result<Ledger> {
    let (mut open, mut ledger) = (invoices.to_vec(), Ledger::default());
    let list: Vec<String> = open
        .iter()
        .map(|i| format!("{}: {} {:.2} {}", i.number, i.vendor, i.cents as f64 / 100.0, i.currency))
        .collect();
    let task =
        format!("Book each invoice to the account that fits, then close the ledger.\n{}", list.join("\n"));
    let mut messages = vec![Message::user(task)];
    loop {
        let tools = tools(&open)?;
        let choice = ToolChoice { calls: Calls::Required, single: true };
        let constraint = tools.constraint(ToolStyle::Hermes, &choice, Policy::default())?;
        let prompt = prompt(engine, &messages, &tools)?;
        let output = engine.generate(&Request::new(prompt).constraint(constraint))?;
        let reply = tools.read(ToolStyle::Hermes, &output.text)?;
        let call = &reply.calls[0];
        println!("  {}({}), {} forwards", call.name, call.arguments, output.stats.forwards);
        if call.name == "close_ledger" {
            return Ok(ledger);
        }
        let arguments: Value = serde_json::from_str(&call.arguments)
            .map_err(|e| Error::new(ErrorKind::InvalidJson, e.to_string()))?;
        let number = arguments["invoice"].as_str().unwrap_or_default();
        let at = open.iter().position(|i| i.number == number).expect("the tool lists the open invoices");
        let account = arguments["account"].as_str().unwrap_or_default().to_owned();
        ledger.0.push(LedgerEntry { invoice: open.remove(at), account });
        messages.push(Message::assistant(output.text));
        messages.push(Message::tool(json!({"booked": number, "open": open.len()}).to_string()));
    }
}

/// The conversation after the system message. A model without a template for tools gets them there.
fn prompt(engine: &Engine, messages: &[Message], tools: &Tools) -> Result<Prompt> {
    let mut system = "You are a bookkeeper. Call one tool at a time.".to_owned();
    let options = match engine.chat_template()? {
        Some(_) => ChatOptions::with_tools(tools.for_prompt()),
        None => {
            system = format!("{system}\nTools:\n{}", Value::from(tools.for_prompt()));
            ChatOptions::default()
        }
    };
    let all: Vec<Message> =
        std::iter::once(Message::system(system)).chain(messages.iter().cloned()).collect();
    engine.chat_prompt(&all, &options)
}

/// The tools of a step.
fn tools(open: &[Invoice]) -> Result<Tools> {
    let close = json!({"name": "close_ledger", "description": "End the work", "parameters":
        {"type": "object", "properties": {}, "additionalProperties": false}});
    let numbers: BTreeSet<&str> = open.iter().map(|i| i.number.as_str()).collect();
    let book = json!({"name": "book_invoice", "description": "Book an invoice to an account", "parameters": {
        "type": "object",
        "properties": {"invoice": {"enum": numbers}, "account": {"enum": ACCOUNTS}},
        "required": ["invoice", "account"],
        "additionalProperties": false,
    }});
    let list = if open.is_empty() { vec![close] } else { vec![book] };
    Tools::parse(&Value::from(list).to_string())
}
