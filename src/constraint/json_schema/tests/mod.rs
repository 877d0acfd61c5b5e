//! Tests of the JSON Schema front end: tables, the corpus against another validator, mutations.

mod coverage;
mod mutation;
mod naive;
mod table;
