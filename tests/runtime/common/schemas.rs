//! Schemas for generation, and a text.

pub(crate) const TEXT: &str = "Invoice INV-20417 from Bright Glacier Consulting, issued 14 March 2024. \
    We ask for 1,840.00 EUR. Items: lamp, \"blue\" table, 3 chairs.";

/// Constraints with long forced runs, and the texts they are filled from: strings, numbers, lists,
/// choices, quotes.
pub(crate) const SCHEMAS: [&str; 4] = [
    r#"{"type":"object","properties":{"number":{"type":"string"},"vendor":{"type":"string","maxLength":40},
        "total":{"type":"number"},"currency":{"enum":["EUR","USD"]}},"required":["number","vendor","total","currency"],
        "additionalProperties":false}"#,
    r#"{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"name":
        {"type":"string","maxLength":20},"count":{"type":["integer","null"]}},"required":["name"],
        "additionalProperties":false},"maxItems":3}},"required":["items"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"issued":{"type":"string","format":"date"},"paid":{"type":"boolean"}},
        "required":["issued","paid"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"title":{"type":"string","x-verbatim":true},"urgent":{"type":"boolean"}},
        "required":["title","urgent"],"additionalProperties":false}"#,
];
