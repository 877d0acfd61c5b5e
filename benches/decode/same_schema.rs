//! Records of one schema out of many texts, as agents often need them: with a cache for the
//! beginnings of prompts, as an engine has by default, and with every prompt read anew.
//!
//! Each text is used once: each arm has an engine of its own, and no two texts are equal. The first
//! round is not counted: there the engines learn, and read the schema.

use ffwd::{Constraint, Engine, Mode, Request, Result, extract};

const SCHEMA: &str = include_str!("../../examples/data/invoice.schema.json");
const VENDORS: [&str; 6] = [
    "Bright Glacier Consulting",
    "Harbour Lane Printing",
    "Mercer and Daughters",
    "Nordlys Shipping",
    "Quiet River Farms",
    "Ostrava Glassworks",
];
const CUSTOMERS: [&str; 5] =
    ["Mikkel Andersson", "Priya Raman", "Joan Whitfield", "Tomás Herrera", "Aiko Tanaka"];
const MONTHS: [&str; 4] = ["January", "March", "June", "November"];
const CURRENCIES: [&str; 4] = ["EUR", "USD", "GBP", "CHF"];

/// An invoice, each of another number.
pub(super) fn text(n: usize) -> String {
    let word = |words: &[&'static str], step: usize| words[(n * step + n / 7) % words.len()];
    format!(
        "INVOICE\nInvoice number: INV-{}\nVendor: {}\nCustomer: {}\nIssued on {} {} 20{}\nTotal: {}.{:02}\nCurrency: {}\nPlease \
         pay within {} days. Thank you for your business!\n",
        20_417 + 37 * n,
        word(&VENDORS, 1),
        word(&CUSTOMERS, 3),
        1 + n * 5 % 28,
        word(&MONTHS, 1),
        20 + n % 7,
        40 + n * 61 % 1900,
        n * 17 % 100,
        word(&CURRENCIES, 3),
        10 + n % 4 * 10,
    )
}

/// Sums over the texts.
#[derive(Default)]
struct Sum {
    ms: f64,
    prompt: f64,
    target: f64,
    draft: f64,
    tokens: usize,
    forwards: usize,
    kept: usize,
    prompts: usize,
}

/// A name, whether beginnings of prompts are cached, and the change of a request.
type Arm = (&'static str, bool, fn(Request) -> Request);

pub(super) fn run(engine: impl Fn() -> Result<Engine>, rounds: usize, texts: usize) -> Result<()> {
    let arms: [Arm; 4] = [
        ("off", true, |r| r.mode(Mode::Off)),
        ("exact", true, |r| r),
        ("off, every prompt anew", false, |r| r.mode(Mode::Off)),
        ("exact, every prompt anew", false, |r| r),
    ];
    let engines = arms.map(|(_, kept, _)| engine().map(|e| if kept { e } else { e.with_prefix_bytes(0) }));
    let engines = engines.into_iter().collect::<Result<Vec<_>>>()?;
    let constraint = Constraint::json_schema(SCHEMA)?;
    let grammars = engines.iter().map(|e| e.compiler().compile(&constraint)).collect::<Result<Vec<_>>>()?;
    let mut sums: [Sum; 4] = Default::default();
    for n in 0..(rounds + 1) * texts {
        let mut same = None;
        for (i, (name, _, change)) in arms.iter().enumerate() {
            let request = change(extract::embedded::request(SCHEMA, text(n))?.grammar(grammars[i].clone()));
            let output = engines[i].generate(&request)?;
            assert_eq!(*same.get_or_insert(output.text.clone()), output.text, "{name}");
            if n < texts {
                continue;
            }
            let (stats, sum) = (output.stats, &mut sums[i]);
            sum.ms += stats.seconds * 1e3;
            let spent = stats.spent.unwrap_or_default();
            sum.prompt += spent.prompt * 1e3;
            sum.target += spent.target * 1e3;
            sum.draft += spent.draft_model * 1e3;
            sum.tokens += stats.tokens;
            sum.forwards += stats.forwards;
            sum.kept += stats.prompt_cached;
            sum.prompts += stats.prompt_tokens;
        }
    }
    let count = (rounds * texts) as f64;
    println!("\nrecords of one schema: {count} texts, ms a record");
    println!(
        "{:<26} {:>8} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}",
        "arm", "prompt", "kept", "each", "total", "prompt", "target", "draft", "rest", "ratio"
    );
    for (i, ((name, ..), s)) in arms.iter().zip(&sums).enumerate() {
        println!(
            "{name:<26} {:>8.0} {:>8.0} {:>6.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>6.2}x",
            s.prompts as f64 / count,
            s.kept as f64 / count,
            s.tokens as f64 / s.forwards as f64,
            s.ms / count,
            s.prompt / count,
            s.target / count,
            s.draft / count,
            (s.ms - s.prompt - s.target - s.draft) / count,
            sums[i / 2 * 2].ms / s.ms,
        );
    }
    Ok(())
}
