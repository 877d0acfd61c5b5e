/** One working example for each kind of constraint. The embedded model can answer all of them. */

const INVOICE = `INVOICE
Invoice number: INV-20417
Vendor: Bright Glacier Consulting
Customer: Mikkel Andersson
Issued on 14 March 2024
Total: 1840.00
Currency: EUR
Please pay within 30 days. Thank you for your business!`;

/** A message in the wording that the embedded model knows, about these properties. */
function message(properties) {
  const schema = JSON.stringify({ type: "object", properties, required: Object.keys(properties) });
  return `Extract the data as JSON matching this schema:\n${schema}\n\nText:\n${INVOICE}`;
}

const FOUR = message({
  vendor: { type: "string" }, issue_date: { type: "string", format: "date" }, total: { type: "number" },
  currency: { enum: ["EUR", "USD"] },
});

const SCHEMA = `{
  "type": "object",
  "properties": {
    "invoice_number": { "type": "string" },
    "vendor": { "type": "string" },
    "customer": { "type": "string" },
    "issue_date": { "type": "string", "format": "date" },
    "total": { "type": "number" },
    "currency": { "enum": ["EUR", "USD", "GBP", "CHF"] }
  },
  "required": ["invoice_number", "vendor", "customer", "issue_date", "total", "currency"],
  "additionalProperties": false
}`;

const REGEX = String.raw`\{"vendor":"[A-Z][a-z]+( [A-Z][a-z]+){0,3}","issue_date":"20[0-9]{2}-[01][0-9]-[0-3][0-9]","total":[0-9]{1,6}(\.[0-9]{2})?,"currency":"(EUR|USD)"\}`;

const GBNF = String.raw`root   ::= "{" pair ("," pair){3} "}"
pair   ::= "\"" key "\":" value
key    ::= "vendor" | "issue_date" | "total" | "currency"
value  ::= text | number
text   ::= "\"" [A-Za-z0-9 .-]{1,40} "\""
number ::= [0-9]{1,6} ("." [0-9]{2})?`;

const LARK = String.raw`start: "{" pair ("," pair)~3 "}"
pair: KEY ":" (TEXT | NUMBER)
KEY: /"(vendor|issue_date|total|currency)"/
TEXT: /"[A-Za-z0-9 .-]{1,40}"/
NUMBER: /[0-9]{1,6}(\.[0-9]{2})?/`;

const LABELS = ["EUR", "USD", "GBP", "CHF"].map((code) => `{"currency":"${code}"}`).join("\n");

const PATTERN = String.raw`'{"vendor":"' UPPER LOWER{1,12} (' ' UPPER LOWER{1,12}){0,3}
'","issue_date":"' DIGIT{4} '-' DIGIT{2} '-' DIGIT{2} '"}'`;

const TAG = `{
  "type": "structural_tag",
  "format": { "type": "sequence", "elements": [
    { "type": "const_string", "value": "Here is the record: " },
    { "type": "tag", "begin": "<record>", "end": "</record>", "content": {
      "type": "json_schema", "json_schema": {
        "type": "object",
        "properties": {
          "vendor": { "type": "string" },
          "issue_date": { "type": "string", "format": "date" },
          "total": { "type": "number" },
          "currency": { "enum": ["EUR", "USD"] }
        },
        "required": ["vendor", "issue_date", "total", "currency"],
        "additionalProperties": false
      }
    } }
  ] }
}`;

/**
 * The kinds: `kind` is the server's name, `as` how the prompt is read.
 * @type {Object<string, {title: string, kind: string, as: string, prompt: string, text: string, note: string}>}
 */
export const EXAMPLES = {
  json_schema: {
    title: "JSON Schema", kind: "json_schema", as: "chat", prompt: INVOICE, text: SCHEMA,
    note: "Every output is a record of the schema.",
  },
  regex: {
    title: "Regular expression", kind: "regex", as: "chat", prompt: FOUR, text: REGEX,
    note: "The whole output matches.",
  },
  gbnf: {
    title: "Grammar (GBNF or EBNF)", kind: "grammar", as: "chat", prompt: FOUR, text: GBNF,
    note: "The form of llama.cpp; the first rule is root.",
  },
  lark: {
    title: "Grammar (Lark)", kind: "grammar", as: "chat", prompt: FOUR, text: LARK,
    note: "Rules in small letters, terminals in capitals; the first rule is start.",
  },
  labels: {
    title: "Labels", kind: "labels", as: "chat", prompt: message({ currency: { enum: ["EUR", "USD", "GBP", "CHF"] } }),
    text: LABELS, note: "One label a line; the output is one of them.",
  },
  pattern: {
    title: "Element pattern", kind: "pattern", as: "chat",
    prompt: message({ vendor: { type: "string" }, issue_date: { type: "string", format: "date" } }), text: PATTERN,
    note: "Elements such as UPPER, LOWER, DIGIT, and texts in quotes.",
  },
  structural_tag: {
    title: "Structural tag", kind: "structural_tag", as: "chat", prompt: FOUR, text: TAG,
    note: "Text with parts between markers, such as calls of tools.",
  },
  none: {
    title: "No constraint", kind: "none", as: "chat", prompt: FOUR, text: "",
    note: "The model writes what it likes.",
  },
};
