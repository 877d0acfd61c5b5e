//! Tests of the front end for JSON Schema; `tests/engine` and `tests/data` have those that need no insight.

mod keywords;
