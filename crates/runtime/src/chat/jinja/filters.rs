//! Filters that Jinja has and `minijinja` has not, or not with all of their arguments.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, State, Value, filters as base};

use super::arguments::Arguments;
use super::{check_widths, fault, python, strings};

type Filter = fn(&Value, &Arguments) -> Result<Value, Error>;

/// A name that no template can write, of the filter `map` with an attribute.
const MAP_ATTRIBUTE: &str = "map attribute";

/// The filter `format` without a limit, by a name that no template can write.
const FORMAT: &str = "format without limit";

/// Filters with the names of their parameters.
const FILTERS: [(&str, &[&str], Filter); 15] = [
    ("center", &["width"], center),
    ("default", &["default_value", "boolean"], default),
    ("d", &["default_value", "boolean"], default),
    ("e", &[], escape),
    ("escape", &[], escape),
    ("float", &["default"], to_float),
    ("forceescape", &[], force_escape),
    ("indent", &["width", "first", "blank"], indent),
    ("int", &["default", "base"], to_int),
    ("items", &[], items),
    ("length", &[], length),
    ("count", &[], length),
    ("string", &[], |value, _| Ok(Value::from(python::to_text(value)))),
    ("trim", &["chars"], trim),
    ("truncate", &["length", "killwords", "end", "leeway"], truncate),
];

pub(super) fn add_to(environment: &mut Environment<'static>) {
    for (name, names, filter) in FILTERS {
        add(environment, name, names, filter);
    }
    add(environment, "replace", &["old", "new", "count"], replace);
    add(environment, "urlencode", &[], url_encode);
    add(environment, "wordcount", &[], word_count);
    environment.add_filter("filesizeformat", minijinja_contrib::filters::filesizeformat);
    environment.add_filter("striptags", minijinja_contrib::filters::striptags);
    add_wrapped(environment);
}

/// Adds filters of `minijinja` that take more arguments here, or are limited.
fn add_wrapped(environment: &mut Environment<'static>) {
    environment.add_filter("sort", |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
        let args = Arguments::new(&["reverse", "case_sensitive", "attribute"], &rest, &named)?;
        base::sort(state, value, args.to_named())
    });
    environment.add_filter("unique", |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
        base::unique(
            state,
            value,
            Arguments::new(&["case_sensitive", "attribute"], &rest, &named)?.to_named(),
        )
    });
    environment.add_filter("dictsort", |value: &Value, rest: Rest<Value>, named: Kwargs| {
        base::dictsort(value, Arguments::new(&["case_sensitive", "by", "reverse"], &rest, &named)?.to_named())
    });
    environment.add_filter(MAP_ATTRIBUTE, base::map);
    environment.add_filter(FORMAT, base::format);
    environment.add_filter("format", |state: &mut State, value: Value, rest: Rest<Value>, named: Kwargs| {
        check_widths(&python::to_text(&value), '%')?;
        state.apply_filter(FORMAT, &all_arguments(value, &rest, named))
    });
    environment.add_filter("map", |state: &mut State, value: Value, rest: Rest<Value>, named: Kwargs| {
        map(state, value, rest, named)
    });
    environment.add_filter("slice", |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
        let args = Arguments::new(&["slices", "fill_with"], &rest, &named)?;
        base::slice(state, value, args.width(0)?.unwrap_or(0), args.value(1).cloned())
    });
    environment.add_filter("batch", |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
        let args = Arguments::new(&["linecount", "fill_with"], &rest, &named)?;
        base::batch(state, value, args.width(0)?.unwrap_or(0), args.value(1).cloned())
    });
    for (name, reverse) in [("min", false), ("max", true)] {
        environment.add_filter(name, move |state: &State, value: Value, rest: Rest<Value>, named: Kwargs| {
            extreme(state, value, &Arguments::new(&["case_sensitive", "attribute"], &rest, &named)?, reverse)
        });
    }
}

fn add(
    environment: &mut Environment<'static>,
    name: &'static str,
    names: &'static [&'static str],
    filter: Filter,
) {
    environment.add_filter(name, move |value: &Value, rest: Rest<Value>, named: Kwargs| {
        filter(value, &Arguments::new(names, &rest, &named)?)
    });
}

/// Applies a filter with its arguments to each item, or takes an attribute of each.
fn map(state: &mut State, value: Value, rest: Rest<Value>, named: Kwargs) -> Result<Vec<Value>, Error> {
    let Some((filter, args)) = rest.0.split_first() else {
        return state
            .apply_filter(MAP_ATTRIBUTE, &[value, Value::from(named)])?
            .try_iter()
            .map(Iterator::collect);
    };
    let filter = filter.as_str().ok_or_else(|| fault("the name of a filter must be a string"))?;
    let apply = |item| state.apply_filter(filter, &all_arguments(item, args, named.clone()));
    value.try_iter()?.map(apply).collect()
}

/// Returns the arguments of a filter: its value, then those by position, then those by name.
fn all_arguments(value: Value, positional: &[Value], named: Kwargs) -> Vec<Value> {
    let has_named = named.args().next().is_some();
    let named = has_named.then(|| Value::from(named));
    [value].into_iter().chain(positional.iter().cloned()).chain(named).collect()
}

/// Returns the first of the least or the greatest items.
fn extreme(state: &State, value: Value, args: &Arguments, reverse: bool) -> Result<Value, Error> {
    let items: Vec<Value> = value.try_iter()?.collect();
    // A stable sort of the reversed list puts the first of the greatest last.
    let items = if reverse { items.into_iter().rev().collect() } else { items };
    let sorted = base::sort(state, Value::from(items), args.to_named())?;
    let at = if reverse { sorted.len().unwrap_or(0).checked_sub(1) } else { Some(0) };
    at.map_or(Ok(Value::UNDEFINED), |at| sorted.get_item(&Value::from(at)))
}

fn center(value: &Value, args: &Arguments) -> Result<Value, Error> {
    let width = args.width(0)?.unwrap_or(80);
    Ok(Value::from(strings::pad(&python::to_text(value), width, ' ', true, true)))
}

fn default(value: &Value, args: &Arguments) -> Result<Value, Error> {
    let absent = value.is_undefined() || (args.flag(1) && !value.is_true());
    let given = || args.given(0).cloned().unwrap_or_else(|| Value::from(""));
    Ok(if absent { given() } else { value.clone() })
}

fn escape(value: &Value, args: &Arguments) -> Result<Value, Error> {
    if value.is_safe() { Ok(value.clone()) } else { force_escape(value, args) }
}

fn force_escape(value: &Value, _: &Arguments) -> Result<Value, Error> {
    let mut out = String::new();
    for c in python::to_text(value).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    Ok(Value::from_safe_string(out))
}

fn indent(value: &Value, args: &Arguments) -> Result<Value, Error> {
    let indentation = match args.value(0) {
        Some(text) if text.kind() == ValueKind::String => text.as_str().unwrap_or_default().to_owned(),
        _ => " ".repeat(args.width(0)?.unwrap_or(4)),
    };
    let text = python::to_text(value) + "\n";
    let lines = strings::lines(&text, false);
    if lines.len().saturating_mul(indentation.len()) > 16 * super::MAX_WIDTH {
        return Err(fault("indent makes too long a text"));
    }
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "\n" });
        let indents = if at == 0 { args.flag(1) } else { args.flag(2) || !line.is_empty() };
        out.push_str(if indents { &indentation } else { "" });
        out.push_str(line);
    }
    Ok(Value::from(out))
}

fn items(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if value.is_undefined() { Ok(Value::from(Vec::<Value>::new())) } else { base::items(value) }
}

fn length(value: &Value, _: &Arguments) -> Result<Value, Error> {
    if value.is_undefined() { Ok(Value::from(0)) } else { base::length(value).map(Value::from) }
}

/// Returns an integer, or the default for a text that is none.
fn to_int(value: &Value, args: &Arguments) -> Result<Value, Error> {
    let base = u32::try_from(args.int(1)?.unwrap_or(10)).ok().filter(|base| (2..=36).contains(base));
    let base = base.ok_or_else(|| fault("the base is not between 2 and 36"))?;
    let number = match value.as_str() {
        _ if value.kind() == ValueKind::Bool => Some(value.is_true().into()),
        Some(text) => integer(text, base).or_else(|| truncated(float(text)?)),
        None => match f64::try_from(value.clone()) {
            Ok(number) if !value.is_integer() => truncated(number),
            _ if value.is_integer() => return Ok(value.clone()),
            _ => None,
        },
    };
    let otherwise = || args.given(0).cloned().unwrap_or_else(|| Value::from(0));
    Ok(number.map_or_else(otherwise, |number| match i64::try_from(number) {
        Ok(number) => Value::from(number),
        Err(_) => Value::from(number),
    }))
}

fn integer(text: &str, base: u32) -> Option<i128> {
    let text = strings::strip(text, None, true, true);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let lower = digits.to_ascii_lowercase();
    let digits = lower.strip_prefix(prefix).unwrap_or(&lower);
    let is_right = !digits.starts_with(['+', '-', '_']) && !digits.ends_with('_') && !digits.contains("__");
    let number = i128::from_str_radix(&digits.replace('_', ""), base).ok().filter(|_| is_right)?;
    Some(sign * number)
}

fn truncated(number: f64) -> Option<i128> {
    (number.abs() < 1e38).then_some(number as i128)
}

fn to_float(value: &Value, args: &Arguments) -> Result<Value, Error> {
    let number = match value.as_str() {
        _ if value.kind() == ValueKind::Bool => Some(value.is_true().into()),
        Some(text) => float(text),
        None => f64::try_from(value.clone()).ok(),
    };
    let otherwise = || args.given(0).cloned().unwrap_or_else(|| Value::from(0.0));
    Ok(number.map_or_else(otherwise, Value::from))
}

fn float(text: &str) -> Option<f64> {
    strings::strip(text, None, true, true).parse().ok()
}

fn replace(value: &Value, args: &Arguments) -> Result<Value, Error> {
    let text = python::to_text(value);
    let (old, new) = (args.needed_text(0)?, args.needed_text(1)?);
    let times = text.matches(old).count().min(args.limit(2)?.unwrap_or(usize::MAX));
    if times.saturating_mul(new.len()) > 1 << 28 {
        return Err(fault("replace makes too long a text"));
    }
    Ok(Value::from(text.replacen(old, new, times)))
}

fn trim(value: &Value, args: &Arguments) -> Result<Value, Error> {
    Ok(Value::from(strings::strip(&python::to_text(value), args.text(0)?, true, true)))
}

/// Cuts a text that is longer than the length and the leeway, at a word if there is one.
fn truncate(value: &Value, args: &Arguments) -> Result<Value, Error> {
    let text = python::to_text(value);
    let (length, leeway) = (args.width(0)?.unwrap_or(255), args.width(3)?.unwrap_or(5));
    let end = args.text(2)?.unwrap_or("...");
    let kept = length.checked_sub(end.chars().count());
    let kept = kept.ok_or_else(|| fault(format!("the length {length} is shorter than the end {end:?}")))?;
    if text.chars().count() <= length + leeway {
        return Ok(Value::from(text));
    }
    let cut = text.char_indices().nth(kept).map_or(&*text, |(at, _)| &text[..at]);
    let cut = if args.flag(1) { cut } else { cut.rsplit_once(' ').map_or(cut, |(words, _)| words) };
    Ok(Value::from(format!("{cut}{end}")))
}

fn word_count(value: &Value, _: &Arguments) -> Result<Value, Error> {
    let text = python::to_text(value);
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    Ok(Value::from(words.count()))
}

/// Quotes a text, of which slashes stay; or the pairs of a dict or a list, for a query.
fn url_encode(value: &Value, _: &Arguments) -> Result<Value, Error> {
    let pairs: Vec<Value> = match value.kind() {
        ValueKind::Map => base::items(value)?.try_iter()?.collect(),
        ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.collect(),
        _ => return Ok(Value::from(quoted(&python::to_text(value), false))),
    };
    let half = |pair: &Value, at: usize| -> Result<String, Error> {
        Ok(quoted(&python::to_text(&pair.get_item(&Value::from(at))?), true))
    };
    let pairs: Result<Vec<String>, Error> =
        pairs.iter().map(|pair| Ok(format!("{}={}", half(pair, 0)?, half(pair, 1)?))).collect();
    Ok(Value::from(pairs?.join("&")))
}

fn quoted(text: &str, in_query: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(byte.into()),
            b'/' if !in_query => out.push('/'),
            b' ' if in_query => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
