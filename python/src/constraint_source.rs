//! Reads the values that constraints are made from: schemas, labels, machines over tokens.

use ffwd_engine::TokenId;
use ffwd_engine::constraint::options::ConstraintOptions;
use ffwd_engine::constraint::token_machine::{Labels, State};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString};

use crate::error::ForPython;
use crate::vocabulary::{id_or_ids, text_bytes};

/// Ids of machines over tokens are checked against a vocabulary when they are compiled.
const ANY_ID: usize = TokenId::MAX as usize;

/// Returns JSON text from a text, a value of dicts and lists, or something that has a schema: a
/// class of pydantic, a `TypeAdapter`, or any type that pydantic makes one for.
pub(crate) fn json_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return String::from_utf8(text_bytes(value)?)
            .map_err(|_| PyValueError::new_err("the text is not UTF-8"));
    }
    let value = match value.getattr_opt("model_json_schema")? {
        Some(schema) => schema.call0()?,
        None => match is_data(value) {
            true => value.clone(),
            false => schema_of_type(value)?,
        },
    };
    let options = PyDict::new(value.py());
    options.set_item("allow_nan", false)?;
    options.set_item("ensure_ascii", false)?;
    value.py().import("json")?.call_method("dumps", (value,), Some(&options))?.extract()
}

/// True for values that JSON has, as opposed to types and adapters of types.
fn is_data(value: &Bound<'_, PyAny>) -> bool {
    let is_type = value.is_callable() || value.hasattr("__origin__").unwrap_or(false);
    !is_type && !value.hasattr("json_schema").unwrap_or(false)
}

fn schema_of_type<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if !value.is_callable()
        && let Some(schema) = value.getattr_opt("json_schema")?
    {
        return schema.call0();
    }
    let name = value.repr()?;
    let Ok(pydantic) = value.py().import("pydantic") else {
        return Err(PyTypeError::new_err(format!(
            "{name} is no schema: it has no model_json_schema, and pydantic is not installed"
        )));
    };
    let adapter = pydantic.getattr("TypeAdapter")?.call1((value,)).map_err(|error| {
        PyTypeError::new_err(format!(
            "{name} is no schema: it has no model_json_schema, and pydantic makes none: {error}"
        ))
    })?;
    adapter.call_method0("json_schema")
}

/// Reads a list of labels, or a tree of them. Also returns them in plain values.
pub(crate) fn label_list<'py>(
    labels: &Bound<'py, PyAny>,
    options: &ConstraintOptions,
) -> PyResult<(Labels, Bound<'py, PyAny>)> {
    let py = labels.py();
    if labels.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("labels is a str; expected a list of str, or a dict"));
    }
    if labels.cast::<PyMapping>().is_ok() {
        let text = json_text(labels)?;
        let tree = options.label_tree(&text).for_python(py)?;
        return Ok((tree, py.import("json")?.call_method1("loads", (text,))?));
    }
    let texts = labels.try_iter()?.map(|text| text?.extract()).collect::<PyResult<Vec<String>>>()?;
    let plain = PyList::new(py, &texts)?.into_any();
    Ok((options.label_list(texts), plain))
}

/// Reads the ids of each position.
pub(crate) fn positions(positions: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<TokenId>>> {
    positions.try_iter()?.map(|ids| id_or_ids(&ids?, ANY_ID)).collect()
}

/// Reads the transitions of a machine over tokens: state, ids, next state.
pub(crate) fn transitions(transitions: &Bound<'_, PyAny>) -> PyResult<Vec<(State, Vec<TokenId>, State)>> {
    let read = |transition: PyResult<Bound<'_, PyAny>>| {
        let (from, ids, to): (State, Bound<'_, PyAny>, State) = transition?.extract()?;
        Ok((from, id_or_ids(&ids, ANY_ID)?, to))
    };
    transitions.try_iter()?.map(read).collect()
}
