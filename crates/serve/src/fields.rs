//! Reader of the members of a JSON object that knows what was read: a member that no code asks for is
//! an error that names it.
//!
//! Members keep their text until they are read, so a schema reaches the engine as it was sent, with
//! all digits of its numbers.
//!
//! # Cost
//! Linear in the text, once for each level that is read.
//!
//! # Alternatives considered
//! Structures derived with `serde` were rejected: they ignore what they do not know, or report it
//! without a hint, and they read numbers of a schema as floats.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::api_error::{ApiError, ApiResult};
use ffwd_runtime::vocab::TokenId;

/// Longest part of a value that an error shows, in characters.
const MAX_SHOWN: usize = 40;
/// Largest edit distance at which a name counts as misspelt.
const MAX_DISTANCE: usize = 3;

/// The members of an object.
pub(super) struct Fields<'a> {
    /// The path of the object, empty for the whole body.
    path: String,
    members: Vec<Member<'a>>,
    asked: Vec<&'static str>,
}

struct Member<'a> {
    name: String,
    value: &'a RawValue,
    read: bool,
}

/// The members of an object in their order.
struct MemberList<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for MemberList<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    list.push(entry);
                }
                Ok(list)
            }
        }
        deserializer.deserialize_map(Object).map(MemberList)
    }
}

impl<'a> Fields<'a> {
    /// Parses the body of a request.
    pub(crate) fn body(text: &'a str) -> ApiResult<Self> {
        Self::parse(text, String::new()).map_err(|error| match error {
            Some(error) => error,
            None => {
                let message = "the body is not a JSON object";
                ApiError::field("", message).hint("send an object with the fields of the request")
            }
        })
    }

    /// Parses an object in the list at `path`.
    pub(crate) fn item(value: &'a RawValue, path: String) -> ApiResult<Self> {
        let wrong =
            ApiError::field(path.clone(), format!("`{path}` must be an object, not {}", shown(value)));
        Self::parse(value.get(), path).map_err(|error| error.unwrap_or(wrong))
    }

    /// # Errors
    /// `None` if the text is no object.
    fn parse(text: &'a str, path: String) -> Result<Self, Option<Box<ApiError>>> {
        let list: MemberList = match serde_json::from_str(text) {
            Ok(list) => list,
            Err(error) if error.is_data() => return Err(None),
            Err(error) => {
                let message = format!("the body is not JSON: {error}");
                return Err(Some(ApiError::field("", message)));
            }
        };
        let mut members: Vec<Member> = Vec::with_capacity(list.0.len());
        for (name, value) in list.0 {
            if members.len() < 100 && members.iter().any(|member| member.name == name) {
                let param = joined(&path, &name);
                let message = format!("`{param}` occurs twice");
                return Err(Some(ApiError::field(param, message)));
            }
            members.push(Member { name, value, read: false });
        }
        Ok(Fields { path, members, asked: Vec::new() })
    }

    /// Returns the path of a member.
    pub(crate) fn path_of(&self, name: &str) -> String {
        joined(&self.path, name)
    }

    /// Returns the text of a member; `null` counts as absent.
    pub(crate) fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.asked.push(name);
        let member = self.members.iter_mut().find(|member| member.name == name)?;
        member.read = true;
        (member.value.get() != "null").then_some(member.value)
    }

    /// Returns the text of a member, which stays unread.
    pub(crate) fn text_of(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|member| member.name == name).map(|member| member.value.get())
    }

    /// Returns true if there is such a member, which stays unread.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.text_of(name).is_some_and(|text| text != "null")
    }

    /// Returns a member of any type; `what` says which values it may have.
    pub(crate) fn value<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
        what: &str,
    ) -> ApiResult<Option<T>> {
        let Some(value) = self.raw(name) else { return Ok(None) };
        // Some clients have floats only.
        let whole = |_| serde_json::from_str(value.get().strip_suffix(".0").unwrap_or_default());
        serde_json::from_str(value.get()).or_else(whole).map(Some).map_err(|_| self.wrong(name, what, value))
    }

    fn wrong(&self, name: &str, what: &str, value: &RawValue) -> Box<ApiError> {
        let param = self.path_of(name);
        let message = format!("`{param}` must be {what}, not {}", shown(value));
        ApiError::field(param, message)
    }

    pub(crate) fn text(&mut self, name: &'static str) -> ApiResult<Option<String>> {
        self.value(name, "a string")
    }

    /// Returns a string that must be there.
    pub(crate) fn needed_text(&mut self, name: &'static str) -> ApiResult<String> {
        self.text(name)?.ok_or_else(|| ApiError::missing(&self.path_of(name)))
    }

    /// Returns the text of a member that must be there.
    pub(crate) fn needed(&mut self, name: &'static str) -> ApiResult<&'a RawValue> {
        self.raw(name).ok_or_else(|| ApiError::missing(&self.path_of(name)))
    }

    pub(crate) fn number(&mut self, name: &'static str) -> ApiResult<Option<f32>> {
        self.value(name, "a number")
    }

    pub(crate) fn integer(&mut self, name: &'static str) -> ApiResult<Option<i64>> {
        self.value(name, "an integer")
    }

    pub(crate) fn count(&mut self, name: &'static str) -> ApiResult<Option<usize>> {
        self.value::<u32>(name, "a whole number from 0 to 4294967295").map(|n| n.map(|n| n as usize))
    }

    /// Returns a limit of tokens, under the first of these names that has one. Below 0 there is none,
    /// as in llama.cpp, so the context is the limit.
    pub(crate) fn limit(&mut self, names: &[&'static str]) -> ApiResult<Option<usize>> {
        let mut found = None;
        for &name in names {
            let limit = self.integer(name)?;
            if limit == Some(0) {
                let param = self.path_of(name);
                let message = format!("`{param}` is 0; allow at least one token");
                return Err(ApiError::field(param, message));
            }
            found = found.or(limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX) as usize));
        }
        Ok(found)
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> ApiResult<Option<bool>> {
        self.value(name, "true or false")
    }

    /// Returns a list of token numbers.
    pub(crate) fn tokens(&mut self, name: &'static str) -> ApiResult<Option<Vec<TokenId>>> {
        self.value(name, "a list of token numbers")
    }

    pub(crate) fn object(&mut self, name: &'static str) -> ApiResult<Option<Fields<'a>>> {
        let Some(value) = self.raw(name) else { return Ok(None) };
        Self::item(value, self.path_of(name)).map(Some)
    }

    /// Returns the object of a member that has all others, or these fields themselves without it.
    pub(crate) fn inner(mut self, name: &'static str) -> ApiResult<Fields<'a>> {
        match self.object(name)? {
            Some(inner) => self.finish().map(|()| inner),
            None => Ok(self),
        }
    }

    /// Returns the items of a list, each with its path.
    pub(crate) fn list(&mut self, name: &'static str) -> ApiResult<Option<Vec<(&'a RawValue, String)>>> {
        let Some(value) = self.raw(name) else { return Ok(None) };
        let path = self.path_of(name);
        let items: Vec<&RawValue> =
            serde_json::from_str(value.get()).map_err(|_| self.wrong(name, "a list", value))?;
        let paired = items.into_iter().enumerate().map(|(i, item)| (item, format!("{path}[{i}]")));
        Ok(Some(paired.collect()))
    }

    /// Returns a string, or the strings of a list.
    pub(crate) fn texts(&mut self, name: &'static str) -> ApiResult<Vec<String>> {
        let Some(value) = self.raw(name) else { return Ok(Vec::new()) };
        if let Ok(text) = serde_json::from_str::<String>(value.get()) {
            return Ok(vec![text]);
        }
        serde_json::from_str(value.get())
            .map_err(|_| self.wrong(name, "a string or a list of strings", value))
    }

    /// Returns the members that were not read yet, all of which then count as read.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let rest = self.members.iter_mut().filter(|member| !member.read);
        rest.map(|member| {
            member.read = true;
            (member.name.as_str(), member.value)
        })
    }

    /// Refuses a member unless its value is one of those that change nothing.
    pub(crate) fn refuse(&mut self, name: &'static str, harmless: &[&str], why: &str) -> ApiResult<()> {
        match self.raw(name) {
            Some(value) if !harmless.contains(&value.get()) => {
                Err(ApiError::unsupported(self.path_of(name), why))
            }
            _ => Ok(()),
        }
    }

    /// Checks that every member was read.
    ///
    /// # Errors
    /// Names the first member that was not, with the name that was perhaps meant.
    pub(crate) fn finish(self) -> ApiResult<()> {
        let unread = |member: &&Member| !member.read && member.value.get() != "null";
        let Some(unknown) = self.members.iter().find(unread) else { return Ok(()) };
        let param = self.path_of(&unknown.name);
        let error = ApiError::new(
            axum::http::StatusCode::BAD_REQUEST,
            "unknown_parameter",
            format!("unknown field `{param}`"),
        );
        let near = |name: &&'static str| strsim::levenshtein(name, &unknown.name);
        let nearest = self.asked.iter().copied().min_by_key(|name| near(name));
        let error = match nearest.filter(|name| near(name) <= MAX_DISTANCE) {
            Some(name) => error.hint(format!("did you mean `{}`?", joined(&self.path, name))),
            None => error.hint("leave it out; docs/serving.md lists the fields"),
        };
        Err(error.with_param(param))
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the beginning of a value, for an error.
fn shown(value: &RawValue) -> String {
    let text = value.get();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_named() {
        let mut fields = Fields::body(r#"{"a": 1, "b": {"top_q": 1}, "c": null}"#).unwrap();
        assert_eq!(fields.count("a").unwrap(), Some(1));
        let mut inner = fields.object("b").unwrap().unwrap();
        assert_eq!(inner.number("top_p").unwrap(), None);
        let error = inner.finish().unwrap_err().object();
        assert_eq!((&error["param"], &error["hint"]), (&"b.top_q".into(), &"did you mean `b.top_p`?".into()));
        assert!(fields.finish().is_ok(), "null is absent");
    }

    #[test]
    fn wrong_values_and_bodies_are_refused() {
        let error = |text: &str| {
            let mut fields = Fields::body(text)?;
            fields.count("n").map(drop)
        };
        for text in ["", "[]", "3", "{\"n\": -1}", "{\"n\": \"1\"}", "{\"n\": 1, \"n\": 2}", "{\"n\": 1} x"] {
            assert_eq!(error(text).unwrap_err().status.as_u16(), 400, "{text}");
        }
        assert!(error("{\"n\": 4294967295}").is_ok());
    }

    #[test]
    fn the_text_of_a_value_is_kept() {
        let text = r#"{"schema": {"const": 1.10000000000000000000000001, "enum": [1e400]}}"#;
        let mut fields = Fields::body(text).unwrap();
        assert_eq!(fields.raw("schema").unwrap().get(), &text[11..text.len() - 1]);
    }
}
