//! Arguments of a method or filter, by position or by name, as Python binds them.

use minijinja::value::{Kwargs, from_args};
use minijinja::{Error, ErrorKind, Value};

use super::{MAX_WIDTH, fault};

/// The values of the parameters of one call.
pub(super) struct Arguments {
    names: &'static [&'static str],
    values: Vec<Option<Value>>,
}

impl Arguments {
    /// Binds the arguments of a call, of which the last value may hold those by name.
    pub(super) fn of_call(names: &'static [&'static str], args: &[Value]) -> Result<Self, Error> {
        let (positional, named): (&[Value], Kwargs) = from_args(args)?;
        Self::new(names, positional, &named)
    }

    pub(super) fn new(
        names: &'static [&'static str],
        positional: &[Value],
        named: &Kwargs,
    ) -> Result<Self, Error> {
        if positional.len() > names.len() {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        let mut values: Vec<Option<Value>> = positional.iter().cloned().map(Some).collect();
        values.resize(names.len(), None);
        for name in named.args() {
            let Some(at) = names.iter().position(|known| *known == name) else {
                return Err(Error::new(ErrorKind::TooManyArguments, format!("unknown argument {name}")));
            };
            if values[at].replace(named.get(name)?).is_some() {
                return Err(fault(format!("the argument {name} occurs twice")));
            }
        }
        Ok(Arguments { names, values })
    }

    /// Returns the given arguments by name.
    pub(super) fn to_named(&self) -> Kwargs {
        let given = self.names.iter().zip(&self.values);
        given.filter_map(|(name, value)| Some((*name, value.clone()?))).collect()
    }

    /// Returns an argument that is given, which may be `none`.
    pub(super) fn given(&self, at: usize) -> Option<&Value> {
        self.values[at].as_ref()
    }

    /// Returns an argument that is given and is not `none`.
    pub(super) fn value(&self, at: usize) -> Option<&Value> {
        self.values[at].as_ref().filter(|value| !value.is_none())
    }

    pub(super) fn text(&self, at: usize) -> Result<Option<&str>, Error> {
        let Some(value) = self.value(at) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| fault(format!("{} must be a string", self.names[at])))
    }

    /// Returns a text that has no default.
    pub(super) fn needed_text(&self, at: usize) -> Result<&str, Error> {
        self.text(at)?.ok_or_else(|| Error::from(ErrorKind::MissingArgument))
    }

    pub(super) fn int(&self, at: usize) -> Result<Option<i64>, Error> {
        let Some(value) = self.value(at) else { return Ok(None) };
        let number = value.as_i64().or_else(|| bool::try_from(value.clone()).ok().map(i64::from));
        number.map(Some).ok_or_else(|| fault(format!("{} must be an integer", self.names[at])))
    }

    /// Returns a width; a negative one is zero.
    pub(super) fn width(&self, at: usize) -> Result<Option<usize>, Error> {
        let Some(width) = self.int(at)? else { return Ok(None) };
        let width = usize::try_from(width).unwrap_or(0);
        if width > MAX_WIDTH {
            return Err(fault(format!("{} is {width}, the limit is {MAX_WIDTH}", self.names[at])));
        }
        Ok(Some(width))
    }

    /// Returns a limit of a number of times; `None` if it is absent or negative.
    pub(super) fn limit(&self, at: usize) -> Result<Option<usize>, Error> {
        Ok(self.int(at)?.and_then(|n| usize::try_from(n).ok()))
    }

    /// Returns true if an argument is given and is true.
    pub(super) fn flag(&self, at: usize) -> bool {
        self.value(at).is_some_and(Value::is_true)
    }
}
