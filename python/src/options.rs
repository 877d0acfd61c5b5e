//! Options of a call in Python: `**options` that serde reads into a structure.
//!
//! The structure is the one list of an option's name, type and default. An option that it lacks is a
//! `TypeError` with the nearest name that it has, and so is a value of another type. A value out of
//! range is a `ValueError`. Both name the option.
//!
//! # Cost
//! A few microseconds for each call with options.
//!
//! # Alternatives considered
//! Parameters of pyo3 were rejected: each option is then written in the signature, in the function, and
//! in the call that `pickle` keeps.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use pythonize::{PythonizeError, depythonize, pythonize};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest edit distance at which a name counts as misspelt.
const MAX_DISTANCE: usize = 3;

/// The keywords of a call.
pub type Kwargs<'py> = Bound<'py, PyDict>;

/// Reads the options of a call. What is not given has its default.
///
/// # Errors
/// `TypeError` for an unknown option and for a value of another type, `ValueError` for a value out of
/// range.
pub fn read<T>(py: Python<'_>, given: Option<&Kwargs<'_>>) -> PyResult<T>
where
    T: Default + Serialize + DeserializeOwned,
{
    let Some(given) = given else { return Ok(T::default()) };
    read_known(given, &pythonize(py, &T::default())?.cast_into::<PyDict>()?)
}

/// Reads options of which those with these defaults are known.
pub(crate) fn read_known<T: DeserializeOwned>(
    given: &Kwargs<'_>,
    defaults: &Bound<'_, PyDict>,
) -> PyResult<T> {
    let plain = PyDict::new(given.py());
    for (name, value) in given {
        let Some(default) = defaults.get_item(&name)? else {
            return Err(unknown(&name.extract::<String>()?, defaults));
        };
        // The numbers of NumPy know their value in Python.
        let value = value.call_method0("item").unwrap_or(value);
        // Serde would read any value by its truth.
        if default.is_instance_of::<PyBool>() && !value.is_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err(format!("{name} is {}; expected True or False", value.repr()?)));
        }
        plain.set_item(name, value)?;
    }
    depythonize(&plain).or_else(|error| {
        for (name, value) in &plain {
            let alone = PyDict::new(given.py());
            alone.set_item(&name, &value)?;
            if let Err(error) = depythonize::<T>(&alone) {
                return Err(wrong(&name, &value, error)?);
            }
        }
        Err(error.into())
    })
}

fn unknown(name: &str, known: &Bound<'_, PyDict>) -> PyErr {
    let names = || known.keys().into_iter().filter_map(|name| name.extract::<String>().ok());
    let distance = |known: &String| strsim::levenshtein(known, name);
    let hint = match names().min_by_key(distance).filter(|nearest| distance(nearest) <= MAX_DISTANCE) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("the options are {}", names().collect::<Vec<_>>().join(", ")),
    };
    PyTypeError::new_err(format!("there is no option {name:?}; {hint}"))
}

/// Makes the exception for the value of an option that cannot be read.
fn wrong(name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, error: PythonizeError) -> PyResult<PyErr> {
    let py = name.py();
    let shown = match value.cast::<PyString>() {
        Ok(text) => format!("{:?}", text.to_str()?),
        Err(_) => value.repr()?.to_string(),
    };
    let error = PyErr::from(error);
    let text = error.value(py).to_string();
    if error.is_instance_of::<PyOverflowError>(py) {
        return Ok(PyValueError::new_err(format!(
            "{name} is {shown}, out of range; expected a number from 0 up"
        )));
    }
    if error.is_instance_of::<PyTypeError>(py) {
        return Ok(PyTypeError::new_err(format!("{name} is {shown}: {text}")));
    }
    if error.is_instance_of::<PyValueError>(py) {
        return Ok(error);
    }
    // Serde repeats the value before it says what it expects.
    let expected = text.find("expected").map_or(&*text, |start| &text[start..]);
    let message = format!("{name} is {shown}; {expected}");
    // Serde knows no integers of more than 64 bits.
    Ok(match text.starts_with("invalid type") && !text.contains("` as ") {
        true => PyTypeError::new_err(message),
        false => PyValueError::new_err(message),
    })
}
