//! Tests of the JSON Schema front end: tables, the corpus against another validator, mutations.

mod annotations;
mod counted_items;
mod coverage;
mod dependencies;
mod dialects;
mod keywords;
mod mutation;
mod naive;
mod number_formats;
mod table;
