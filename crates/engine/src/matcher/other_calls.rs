//! Calls in another spelling than a model was asked for, with arguments that fit their schemas.
//!
//! # Cost
//! Reading the reply in each style, and compiling the schema of each function that it calls.
//!
//! # Alternatives considered
//! Passing on what does not fit was rejected: a function that gets other arguments than it declares
//! fails later, and further from the cause.

use super::Compiler;
use crate::constraint::tools::{Reply, ToolCall, Tools};
use crate::constraint::{Constraint, KeyOrder, Policy, Whitespace};
use crate::error::Result;
use crate::vocab::Vocabulary;

impl Tools {
    /// Parses calls that a model wrote in another spelling than it was asked for: that of another
    /// style, bare JSON with a `name` and `arguments`, JSON in a code fence, or calls in Python.
    /// Returns `None` if there are none, or if the arguments of one do not satisfy the schema of its
    /// function, with its keys in any order.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::Policy;
    /// use ffwd_engine::constraint::tools::Tools;
    ///
    /// let list = r#"[{"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}]"#;
    /// let tools = Tools::parse(list)?;
    /// let read = |reply: &str| tools.read_other(reply, &Policy::default());
    /// for reply in ["{\"name\": \"add\", \"arguments\": {\"a\":1}}", "[add(a=1)]", "<function=add>{\"a\":1}</function>"] {
    ///     assert_eq!(read(reply).unwrap().calls[0].arguments, r#"{"a":1}"#);
    /// }
    /// assert!(read("add(a='x')").is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_other(&self, reply: &str, policy: &Policy) -> Option<Reply> {
        self.read_fitting(reply, &|call: &ToolCall| {
            self.schema(&call.name)
                .is_some_and(|schema| fits(schema, &call.arguments, policy).is_ok_and(|fits| fits))
        })
    }
}

/// Returns whether the arguments of a call satisfy a schema.
fn fits(schema: &str, arguments: &str, policy: &Policy) -> Result<bool> {
    let policy = Policy {
        key_order: KeyOrder::Any,
        whitespace: Whitespace::Flexible { max: u8::MAX },
        ..policy.clone()
    };
    let bytes: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
    let compiler = Compiler::new(Vocabulary::from_token_bytes(&bytes, &[], Vec::new())?);
    let constraint = Constraint::builder().policy(policy).json_schema(schema)?;
    let mut matcher = compiler.compile(&constraint)?.matcher();
    Ok(arguments.bytes().all(|byte| matcher.accept_token(byte.into()).is_ok()) && matcher.is_accepting())
}
