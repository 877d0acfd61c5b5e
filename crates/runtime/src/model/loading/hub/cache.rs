//! The cache that the hub's tools share: a folder for each repository, with a snapshot of links for
//! each commit, the files themselves (`blobs`), and the commits of branches (`refs`).
//!
//! # Cost
//!
//! Looking up a model reads a few small files. Listing reads the folders of all repositories, and
//! the header of each model file.
//!
//! # Alternatives considered
//!
//! The lookup of the hub's client was rejected. It knows branches but not commits, and finds single
//! files rather than a snapshot.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::choose::{ChosenFiles, choose, gguf_models, parts};
use super::name::{ModelName, is_plain_path};
use crate::error::{Error, Result};
use crate::model::loading::describe::{Description, describe};

/// The branch that is meant if none is named.
pub(super) const MAIN: &str = "main";
/// Most entries of one folder that are read, and most folders within each other.
const MAX_ENTRIES: usize = 10_000;
const MAX_DEPTH: usize = 3;

/// The cache's folder.
#[derive(Debug, Clone)]
pub(super) struct HubCache {
    root: PathBuf,
}

/// The part of the cache that belongs to one repository.
#[derive(Debug, Clone)]
pub(super) struct RepoCache {
    root: PathBuf,
}

impl HubCache {
    /// Returns the cache in a folder, or the one that the environment describes.
    pub(super) fn new(folder: Option<&Path>) -> HubCache {
        HubCache { root: folder.map_or_else(default_folder, Path::to_path_buf) }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn repo(&self, repo: &str) -> RepoCache {
        RepoCache { root: self.root.join(format!("models--{}", repo.replace('/', "--"))) }
    }
}

impl RepoCache {
    /// Returns the commit of a branch or tag, or of a commit that has a snapshot.
    pub(super) fn commit(&self, revision: &str) -> Option<String> {
        if let Ok(text) = std::fs::read_to_string(self.root.join("refs").join(revision)) {
            return Some(text.trim().to_owned()).filter(|commit| is_commit(commit));
        }
        (is_commit(revision) && self.snapshot(revision).is_dir()).then(|| revision.to_owned())
    }

    /// Notes the commit of a branch or tag. A commit needs no note.
    pub(super) fn set_commit(&self, revision: &str, commit: &str) -> Result<()> {
        let file = self.root.join("refs").join(revision);
        if revision == commit {
            return Ok(());
        }
        let folder = file.parent().unwrap_or(&self.root);
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, &e))?;
        std::fs::write(&file, commit).map_err(|e| Error::io(&file, &e))
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.root.join("snapshots").join(commit)
    }

    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.root.join("blobs").join(etag)
    }

    /// Removes the note that the client makes for each commit it downloads.
    pub(super) fn forget_ref(&self, commit: &str) {
        // It is only untidy if it stays.
        let _ = std::fs::remove_file(self.root.join("refs").join(commit));
    }

    /// Returns the path to open for a model in a snapshot: a GGUF file or the snapshot's folder.
    ///
    /// # Errors
    /// Fails if the snapshot lacks some of the model's files.
    pub(super) fn find(&self, model: &ModelName, commit: &str) -> Result<PathBuf> {
        let folder = self.snapshot(commit);
        let ChosenFiles { gguf, .. } = choose(model, &names(&folder)).map_err(|e| {
            e.at(crate::error::Place::File(folder.clone()))
                .hint("a partial cache is completed by fetching the model online")
        })?;
        Ok(gguf.map_or(folder.clone(), |file| folder.join(file)))
    }
}

/// Returns true for a commit: forty hexadecimal digits.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// Returns the folder that all tools of the hub use by default.
fn default_folder() -> PathBuf {
    variable("HF_HUB_CACHE").unwrap_or_else(|| home_folder().join("hub"))
}

/// Returns the folder of the hub's tools: the cache and the access token are in it.
pub(super) fn home_folder() -> PathBuf {
    variable("HF_HOME").unwrap_or_else(|| {
        let caches = variable("XDG_CACHE_HOME")
            .unwrap_or_else(|| std::env::home_dir().unwrap_or_default().join(".cache"));
        caches.join("huggingface")
    })
}

/// Returns the names of the files in a folder, with `/` between folders and files.
fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![(folder.to_path_buf(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = todo.pop() {
        for (name, path) in entries(&folder) {
            let name = format!("{prefix}{name}");
            if path.is_file() {
                found.push(name);
            } else if path.is_dir() && depth < MAX_DEPTH {
                todo.push((path, name + "/", depth + 1));
            }
        }
    }
    found.sort();
    found
}

/// Returns the entries of a folder that have plain names, sorted; none if it cannot be read.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(String, PathBuf)> = entries
        .take(MAX_ENTRIES)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            is_plain_path(&name).then(|| (name, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// A model in the cache.
#[derive(Debug, Clone, Serialize)]
pub struct CachedModel {
    /// The name to use, such as `owner/name:FILE.gguf`.
    pub name: String,
    /// The GGUF file, or the folder of the snapshot.
    pub path: PathBuf,
    /// The format, size and family, or the reason why the files cannot be read.
    #[serde(flatten)]
    pub description: Description,
}

/// Lists the models in the cache: `folder`, or the one that the environment describes. Repositories
/// without weights that this crate reads are left out.
pub fn cached_models(folder: Option<&Path>) -> Vec<CachedModel> {
    let cache = HubCache::new(folder);
    let mut found = Vec::new();
    for (name, _) in entries(&cache.root) {
        let Some((owner, name)) = name.strip_prefix("models--").and_then(|n| n.split_once("--")) else {
            continue;
        };
        let repo = format!("{owner}/{name}");
        if let Ok(model) = repo.parse::<ModelName>() {
            list_repo(&cache.repo(&repo), &model, &mut found);
        }
    }
    found
}

/// Appends the models in all snapshots of a repository.
fn list_repo(cache: &RepoCache, model: &ModelName, found: &mut Vec<CachedModel>) {
    let branches: Vec<(String, String)> = names(&cache.root.join("refs"))
        .into_iter()
        .filter_map(|name| cache.commit(&name).map(|commit| (name, commit)))
        .collect();
    for (commit, folder) in entries(&cache.root.join("snapshots")) {
        let of_commit = |name: &&(String, String)| name.1 == commit;
        let revision = match branches.iter().filter(of_commit).find(|(name, _)| name == MAIN) {
            Some(_) => None,
            None => Some(branches.iter().find(of_commit).map_or(&*commit, |(name, _)| name)),
        };
        let model = match revision {
            None => model.clone(),
            Some(revision) => match model.clone().at(revision) {
                Ok(model) => model,
                Err(_) => continue,
            },
        };
        let names = names(&folder);
        if choose(&model, &names).is_ok_and(|choice| choice.gguf.is_none()) {
            let description = describe(&folder);
            found.push(CachedModel { name: model.to_string(), path: folder.clone(), description });
        }
        for file in gguf_models(&names) {
            let path = folder.join(file);
            // A part that is missing is the first thing that a user has to know.
            let missing = parts(file).into_iter().find(|part| !names.contains(part));
            let description = match missing {
                None => describe(&path),
                Some(part) => Description::problem(format!("{part} is missing")),
            };
            found.push(CachedModel { name: format!("{model}:{file}"), path, description });
        }
    }
}
