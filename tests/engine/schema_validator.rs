//! Random schemas against another validator: every small instance is judged alike.
//!
//! Each module has the schemas of one kind of keyword and the instances that tell them apart.

mod counted_items;
mod dependencies;
mod number_formats;
mod siblings;

use ffwd::{CompiledGrammar, Constraint, ErrorKind, Policy, Result};
use ffwd_testkit::vocab::{Setting, accepts};
use serde_json::Value;

/// Results for some schemas.
#[derive(Default)]
struct Counts {
    compared: usize,
    valid: usize,
    invalid: usize,
    /// Schemas that nothing satisfies.
    empty: usize,
    /// Schemas that are refused, with the reasons.
    refused: Vec<String>,
}

/// Compiles schemas for the bytes as tokens.
struct Schemas(Setting);

impl Schemas {
    fn new() -> Self {
        Schemas(Setting::new(1, 0, &[]))
    }

    fn compile(&self, schema: &str, policy: &Policy) -> Result<CompiledGrammar> {
        self.0.compiler.compile(&Constraint::builder().policy(policy.clone()).json_schema(schema)?)
    }

    /// Compares a schema with the other validator on instances. Each has several forms; one of them
    /// must be accepted if the instance is valid.
    fn compare(&self, schema: &Value, instances: &[Vec<String>], counts: &mut Counts) {
        let validator = jsonschema::draft202012::new(schema).unwrap_or_else(|e| panic!("{schema}: {e}"));
        let grammar = match self.compile(&schema.to_string(), &Policy::default()) {
            Ok(grammar) => Some(grammar),
            Err(e) if e.kind() == ErrorKind::Unsatisfiable => None,
            Err(e) => {
                assert!(matches!(e.kind(), ErrorKind::TooComplex | ErrorKind::Unsupported), "{schema}\n{e}");
                return counts.refused.push(format!("{schema}: {}", e.message()));
            }
        };
        counts.compared += 1;
        counts.empty += usize::from(grammar.is_none());
        for forms in instances {
            let value: Value = serde_json::from_str(&forms[0]).expect("JSON");
            let expected = validator.is_valid(&value);
            let found =
                grammar.as_ref().is_some_and(|grammar| forms.iter().any(|text| accepts(grammar, text)));
            assert_eq!(found, expected, "{schema}\non {}", forms[0]);
            *if expected { &mut counts.valid } else { &mut counts.invalid } += 1;
        }
    }
}
