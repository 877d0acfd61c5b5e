//! Methods of Python's strings, lists, dicts and numbers. Methods that change a list or a dict do
//! not exist: the sandbox of the hub's libraries refuses them.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::arguments::Arguments;
use super::{fault, python, strings};

/// Calls a method of a value.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let found = match value.kind() {
        ValueKind::String => of_string(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq => of_list(value, method, args)?,
        ValueKind::Map if method == "copy" => {
            Arguments::of_call(&[], args)?;
            Some(value.clone())
        }
        ValueKind::Number if method == "is_integer" => {
            Arguments::of_call(&[], args)?;
            Some(Value::from(f64::try_from(value.clone()).is_ok_and(|number| number.fract() == 0.0)))
        }
        _ => None,
    };
    match found {
        Some(found) => Ok(found),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn of_list(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "copy" => {
            Arguments::of_call(&[], args)?;
            value.clone()
        }
        "index" => {
            let args = Arguments::of_call(&["value"], args)?;
            let at = value.try_iter()?.position(|item| Some(&item) == args.value(0));
            Value::from(at.ok_or_else(|| fault("the value is not in the list"))?)
        }
        _ => return Ok(None),
    }))
}

fn of_string(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let found = match kind_test(method) {
        Some(test) => {
            Arguments::of_call(&[], args)?;
            Value::from(test(text))
        }
        None => match cut(text, method, args)? {
            Some(found) => found,
            None => match search(text, method, args)? {
                Some(found) => found,
                None => return changed(text, method, args),
            },
        },
    };
    Ok(Some(found))
}

/// Returns the test of a string without arguments.
fn kind_test(method: &str) -> Option<fn(&str) -> bool> {
    let test: fn(&str) -> bool = match method {
        "isalpha" => |s| all(s, char::is_alphabetic),
        "isalnum" => |s| all(s, char::is_alphanumeric),
        "isdecimal" => |s| all(s, strings::is_decimal),
        "isdigit" => |s| all(s, strings::is_digit),
        "isnumeric" => |s| all(s, char::is_numeric),
        "isspace" => |s| all(s, strings::is_space),
        "isprintable" => |s| s.chars().all(python::is_printable),
        "isascii" => str::is_ascii,
        "istitle" => strings::is_title,
        "isidentifier" => strings::is_identifier,
        _ => return None,
    };
    Some(test)
}

fn all(text: &str, test: fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(test)
}

/// Methods that return parts of the string.
fn cut(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let part = |part: &str| Ok(Some(Value::from(part)));
    let list = |parts: Vec<&str>| Ok(Some(parts.into_iter().map(Value::from).collect()));
    match method {
        "strip" | "lstrip" | "rstrip" => {
            let args = Arguments::of_call(&["chars"], args)?;
            part(strings::strip(text, args.text(0)?, method != "rstrip", method != "lstrip"))
        }
        "removeprefix" | "removesuffix" => {
            let args = Arguments::of_call(&["affix"], args)?;
            let affix = args.needed_text(0)?;
            let rest =
                if method == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            part(rest.unwrap_or(text))
        }
        "split" | "rsplit" => {
            let args = Arguments::of_call(&["sep", "maxsplit"], args)?;
            let separator = not_empty(args.text(0)?)?;
            let split = if method == "split" { strings::split } else { strings::rsplit };
            list(split(text, separator, args.limit(1)?))
        }
        "partition" | "rpartition" => {
            let args = Arguments::of_call(&["sep"], args)?;
            let separator = args.needed_text(0)?;
            not_empty(Some(separator))?;
            let parts = strings::partition(text, separator, method == "rpartition");
            Ok(Some(Value::from(Tuple::from(parts.map(Value::from)))))
        }
        "splitlines" => {
            let args = Arguments::of_call(&["keepends"], args)?;
            list(strings::lines(text, args.flag(0)))
        }
        _ => Ok(None),
    }
}

fn not_empty(separator: Option<&str>) -> Result<Option<&str>, Error> {
    match separator {
        Some("") => Err(fault("empty separator")),
        separator => Ok(separator),
    }
}

/// Methods that look for other strings.
fn search(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    if !matches!(method, "count" | "find" | "rfind" | "index" | "rindex" | "startswith" | "endswith") {
        return Ok(None);
    }
    let args = Arguments::of_call(&["sub", "start", "end"], args)?;
    let part = strings::part(text, args.int(1)?, args.int(2)?);
    if matches!(method, "startswith" | "endswith") {
        let is_at_end = |affix: &str| {
            part.is_some_and(|(_, part)| match method {
                "startswith" => part.starts_with(affix),
                _ => part.ends_with(affix),
            })
        };
        return Ok(Some(Value::from(any_affix(&args, is_at_end)?)));
    }
    let sub = args.needed_text(0)?;
    if method == "count" {
        return Ok(Some(Value::from(part.map_or(0, |(_, part)| part.matches(sub).count()))));
    }
    let last = method.starts_with('r');
    let at = part.and_then(|(from, part)| Some(from + strings::find(part, sub, last)?));
    match at {
        Some(at) => Ok(Some(Value::from(at))),
        None if method.ends_with("find") => Ok(Some(Value::from(-1))),
        None => Err(fault("substring not found")),
    }
}

/// Tests one text, or a tuple of texts.
fn any_affix(args: &Arguments, test: impl Fn(&str) -> bool) -> Result<bool, Error> {
    let value = args.value(0).ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
    match value.downcast_object_ref::<Tuple>() {
        None => args.needed_text(0).map(test),
        Some(all) => {
            for affix in all.iter() {
                if test(affix.as_str().ok_or_else(|| fault("an affix must be a string"))?) {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// Methods that return another string.
fn changed(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let simple: Option<fn(&str) -> String> = match method {
        "title" => Some(strings::title),
        "capitalize" => Some(strings::capitalize),
        "swapcase" => Some(strings::swap_case),
        "casefold" => Some(strings::case_fold),
        _ => None,
    };
    let changed = match method {
        _ if let Some(simple) = simple => {
            Arguments::of_call(&[], args)?;
            simple(text)
        }
        "center" | "ljust" | "rjust" => {
            let args = Arguments::of_call(&["width", "fillchar"], args)?;
            let width = args.width(0)?.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
            let mut fill = args.text(1)?.unwrap_or(" ").chars();
            let (Some(fill), None) = (fill.next(), fill.next()) else {
                return Err(fault("fillchar must be one character"));
            };
            strings::pad(text, width, fill, method != "ljust", method != "rjust")
        }
        "zfill" => {
            let args = Arguments::of_call(&["width"], args)?;
            let width = args.width(0)?.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
            strings::zero_fill(text, width)
        }
        "expandtabs" => {
            let width = Arguments::of_call(&["tabsize"], args)?.width(0)?.unwrap_or(8);
            let tabs = text.matches('\t').count();
            if tabs.saturating_mul(width) > super::MAX_WIDTH * 16 {
                return Err(fault("expandtabs makes too many blanks"));
            }
            strings::expand_tabs(text, width)
        }
        "format" => {
            super::check_widths(text, '{')?;
            return Ok(None);
        }
        "join" => {
            let args = Arguments::of_call(&["iterable"], args)?;
            let items = args.value(0).ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
            let mut out = String::new();
            for (at, item) in items.try_iter()?.enumerate() {
                out.push_str(if at == 0 { "" } else { text });
                out.push_str(item.as_str().ok_or_else(|| fault("join needs strings"))?);
            }
            out
        }
        _ => return Ok(None),
    };
    Ok(Some(Value::from(changed)))
}
