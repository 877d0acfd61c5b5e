//! Names of models on a hub, as users write them: `owner/name`, `owner/name@revision`,
//! `owner/name:FILE.gguf`.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// Longest owner or name of a repository.
const MAX_NAME: usize = 96;
/// Longest revision or path in a repository.
const MAX_PATH: usize = 200;

/// A model in a repository of a hub: `owner/name`, with `@revision` and `:file` if they are given.
///
/// ```
/// use ffwd::model::hub::ModelName;
///
/// let name: ModelName = "someone/tiny-GGUF@v1:tiny-Q8_0.gguf".parse()?;
/// assert_eq!((name.repo(), name.revision(), name.file()), ("someone/tiny-GGUF", Some("v1"), Some("tiny-Q8_0.gguf")));
/// assert!("tiny".parse::<ModelName>().is_err());
/// # Ok::<(), ffwd::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelName {
    repo: String,
    revision: Option<String>,
    file: Option<String>,
}

impl ModelName {
    /// Returns the repository, `owner/name`.
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// Returns the branch, tag or commit.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// Returns the file: a path that ends in `.gguf`, or the end of such a name, like `Q4_K_M`.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns the same model at another revision.
    ///
    /// # Errors
    /// Fails if the revision is not a name of a branch, a tag or a commit.
    pub fn at(mut self, revision: &str) -> Result<ModelName> {
        check_path("the revision", revision)?;
        self.revision = Some(revision.to_owned());
        Ok(self)
    }

    /// Returns true if a text has the form of a name, whether or not its parts are valid: one
    /// slash, and it begins neither as a path nor as an address.
    pub fn looks_like(text: &str) -> bool {
        let repo = text.split(['@', ':']).next().unwrap_or_default();
        repo.split('/').count() == 2
            && !text.starts_with(['.', '/', '~', '\\'])
            && !text.contains("://")
            && !repo.to_ascii_lowercase().ends_with(".gguf")
    }
}

impl FromStr for ModelName {
    type Err = Error;

    fn from_str(text: &str) -> Result<ModelName> {
        let (rest, file) = match text.split_once(':') {
            Some((rest, file)) => (rest, Some(file)),
            None => (text, None),
        };
        let (repo, revision) = match rest.split_once('@') {
            Some((repo, revision)) => (repo, Some(revision)),
            None => (rest, None),
        };
        if !repo.split_once('/').is_some_and(|(owner, name)| fits(owner) && fits(name)) {
            let message = format!("`{}` is not the name of a repository", repo.escape_debug());
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("names look like HuggingFaceTB/SmolLM2-135M-Instruct"));
        }
        if let Some(revision) = revision {
            check_path("the revision", revision)?;
        }
        if let Some(file) = file {
            check_path("the file", file)?;
        }
        let owned = |part: Option<&str>| part.map(str::to_owned);
        Ok(ModelName { repo: repo.to_owned(), revision: owned(revision), file: owned(file) })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        if let Some(file) = &self.file {
            write!(f, ":{file}")?;
        }
        Ok(())
    }
}

/// Returns true for an owner or a name that the hub allows. Two hyphens separate them in the cache.
fn fits(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && part.len() <= MAX_NAME
        && !part.contains("--")
        && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Returns true for a text that may become a part of a path in the cache.
pub(super) fn is_plain_path(text: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+ ()".contains(c))
    };
    text.len() <= MAX_PATH && text.split('/').all(plain)
}

fn check_path(what: &str, text: &str) -> Result<()> {
    match is_plain_path(text) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::InvalidOption, format!("{what} is `{}`", text.escape_debug()))
            .hint("use letters, digits, `-`, `_`, `.`, `+` and single slashes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_and_written_alike() {
        for text in ["a/b", "a/b@main", "a/b:c.gguf", "a/b@v1.0:folder/c-00001-of-00002.gguf", "a/b@pr/1"] {
            assert!(ModelName::looks_like(text), "{text}");
            assert_eq!(text.parse::<ModelName>().unwrap().to_string(), text);
        }
        let name: ModelName = "a/b@old:c".parse().unwrap();
        assert_eq!(name.at("new").unwrap().to_string(), "a/b@new:c");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let wrong = [
            "",
            "tiny",
            "/",
            "a/",
            "/b",
            "a/b/c",
            "../x",
            "a/..",
            "a b/c",
            "https://x/y",
            "a/b@",
            "a/b:",
            "a/b@..",
            "a/b:../c.gguf",
            "a/b@x//y",
            "a--b/c",
            "a/b:/etc/c.gguf",
            "a/b@\n",
        ];
        for text in wrong {
            let error = text.parse::<ModelName>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{text}");
        }
    }

    #[test]
    fn paths_do_not_look_like_names() {
        for path in ["model.gguf", "./a/b", "/a/b", "../a", "a/b/c", "https://x/y", "models/tiny.gguf", "~/x"]
        {
            assert!(!ModelName::looks_like(path), "{path}");
        }
    }
}
