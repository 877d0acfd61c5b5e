//! Bounds on circles of imports and on the number of a type's methods.
//!
//! A circle is a set of files each of which uses all others, directly or through further files. A
//! name that a module passes on by `pub use` counts as use of the file that defines it. Tests do
//! not count, and neither does a `pub use` itself.
//!
//! # Alternatives considered
//!
//! Parsing with `syn` was rejected: paths and `impl` blocks are found by their text, since
//! `rustfmt` gives all files one form.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::{Captures, Regex};

use super::layers::rust_files;

/// The most files that one circle of imports has, in each of the crates.
const MAX_CIRCLES: [usize; 6] = [3, 2, 5, 5, 2, 2];
/// The most methods that a type has, all of its `impl` blocks together.
const MAX_METHODS: usize = 60;

/// A module's or an item's path from the root of its crate.
type ItemPath = Vec<String>;

/// The code of a crate: its modules by their paths.
struct Crate {
    modules: BTreeMap<ItemPath, String>,
    /// For each module, the names that it passes on, with what they stand for.
    exports: BTreeMap<ItemPath, BTreeMap<String, ItemPath>>,
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern")
}

/// Returns the code of a file without comments, texts, characters and the tests at its end.
fn code(text: &str) -> String {
    let token = [
        r"//[^\n]*|(?s:/\*.*?\*/)",
        r###"|b?r##"(?s:.*?)"##|b?r#"(?s:.*?)"#|b?r"[^"]*""###,
        r#"|b?"(?:\\(?s:.)|[^"\\])*""#,
        r"|b?'(?:\\(?:u\{[0-9a-fA-F]+\}|x..|.)|[^'\\])'",
    ];
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let kept = |found: &Captures<'_>| if found[0].starts_with('/') { "" } else { "0" };
    regex(&token.concat()).replace_all(text, kept).into_owned()
}

/// Splits a tree of imports, such as `a::{b, c::d}`, into its paths.
fn paths(prefix: &[String], tree: &str, found: &mut Vec<ItemPath>) {
    let names = |text: &str| -> ItemPath {
        let before = text.split(" as ").next().unwrap_or_default();
        before.split("::").map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect()
    };
    let (head, rest) = tree.split_once('{').unwrap_or((tree, ""));
    let path = [prefix, &names(head)].concat();
    if !tree.contains('{') {
        found.push(path);
        return;
    }
    let inner = &rest[..rest.rfind('}').unwrap_or(rest.len())];
    let (mut depth, mut start) = (0, 0);
    for (i, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..i].trim().is_empty() {
                    paths(&path, &inner[start..i], found);
                }
                start = i + 1;
            }
            _ => {}
        }
    }
}

impl Crate {
    fn read(source: &Path) -> Self {
        let mut modules = BTreeMap::new();
        for file in rust_files(source) {
            let relative = file.strip_prefix(source).expect("a file of the crate").with_extension("");
            let mut path: ItemPath =
                relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            path.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
            if path.iter().any(|part| ["tests", "test_reference", "oracle_tests"].contains(&part.as_str())) {
                continue;
            }
            modules.insert(path, code(&std::fs::read_to_string(&file).expect("a source file")));
        }
        Self::of(modules)
    }

    fn of(modules: BTreeMap<ItemPath, String>) -> Self {
        let mut found = Crate { modules, exports: BTreeMap::new() };
        for module in found.modules.keys() {
            let exports = found.uses(module).into_iter().filter(|(_, passed_on)| *passed_on);
            let named = exports.filter_map(|(path, _)| Some((path.last()?.clone(), path)));
            found.exports.insert(module.clone(), named.collect());
        }
        found
    }

    /// Returns the paths of the crate that a module uses, and whether it passes them on.
    fn uses(&self, module: &ItemPath) -> Vec<(ItemPath, bool)> {
        let text = &self.modules[module];
        let import = regex(r"(?m)^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);");
        let mut found = Vec::new();
        for one in import.captures_iter(text) {
            let mut all = Vec::new();
            paths(&[], &one[2], &mut all);
            found.extend(all.into_iter().map(|path| (path, one.get(1).is_some())));
        }
        let rest = import.replace_all(text, "");
        let rest = regex(r"pub\([^)]*\)").replace_all(&rest, "pub");
        let inline = regex(r"(?:^|[^\w:])((?:[a-z_]\w*::)+\w+)");
        found.extend(
            inline
                .captures_iter(&rest)
                .map(|one| (one[1].split("::").map(str::to_owned).collect::<ItemPath>(), false)),
        );
        found.into_iter().filter_map(|(path, on)| Some((self.absolute(module, &path)?, on))).collect()
    }

    /// Returns a path from the crate's root, or `None` for one of another crate.
    fn absolute(&self, module: &ItemPath, path: &[String]) -> Option<ItemPath> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat()),
            child => {
                let inside = [module.as_slice(), &[child.to_owned()]].concat();
                self.modules.contains_key(&inside).then(|| [module, path].concat())
            }
        }
    }

    /// Returns the module that defines what a path names.
    fn defining(&self, path: &[String], depth: usize) -> ItemPath {
        let is_module = |n: &usize| self.modules.contains_key(&path[..*n]);
        let length = (0..=path.len()).rev().find(is_module).unwrap_or(0);
        let exports = self.exports.get(&path[..length]);
        let passed_on = path.get(length).and_then(|name| exports?.get(name));
        match passed_on.filter(|original| original.as_slice() != path && depth < 5) {
            Some(original) => self.defining(&[original, &path[length + 1..]].concat(), depth + 1),
            None => path[..length].to_vec(),
        }
    }

    /// Returns the circles, as the modules that reach each other.
    fn circles(&self) -> Vec<BTreeSet<ItemPath>> {
        let mut reaches: BTreeMap<&ItemPath, BTreeSet<ItemPath>> = BTreeMap::new();
        for module in self.modules.keys() {
            let used = self.uses(module).into_iter().filter(|(_, passed_on)| !passed_on);
            let used = used.map(|(path, _)| self.defining(&path, 0));
            reaches.insert(module, used.filter(|m| m != module && !m.is_empty()).collect());
        }
        let mut closure = BTreeMap::new();
        for start in self.modules.keys() {
            let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
            while let Some(module) = todo.pop() {
                todo.extend(reaches[module].iter().filter(|next| seen.insert(*next)));
            }
            closure.insert(start, seen);
        }
        let circle = |module: &ItemPath| -> BTreeSet<ItemPath> {
            closure[module].iter().filter(|m| closure[**m].contains(module)).map(|m| (*m).clone()).collect()
        };
        let found: BTreeSet<_> = self.modules.keys().map(circle).filter(|c| c.len() > 1).collect();
        found.into_iter().collect()
    }

    /// Returns the number of methods of each type.
    fn methods(&self) -> BTreeMap<String, usize> {
        let block = regex(r"(?ms)^impl(?:<[^{]*?>)?\s+([^{]*?)\{(.*?)^\}");
        let method = regex(r"(?m)^    (?:pub(?:\([^)]*\))?\s+)?(?:const\s+|async\s+|unsafe\s+)*fn\s");
        let name = regex(r"^&?(?:'\w+\s+)?(?:\w+::)*(\w+)");
        let mut count = BTreeMap::new();
        for text in self.modules.values() {
            for one in block.captures_iter(text) {
                let subject = one[1].rsplit(" for ").next().unwrap_or_default();
                let Some(found) = name.captures(subject.trim()) else { continue };
                *count.entry(found[1].to_owned()).or_default() += method.find_iter(&one[2]).count();
            }
        }
        count
    }
}

fn crates() -> [Crate; 6] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    [
        "crates/engine/src",
        "crates/documents/src",
        "crates/runtime/src",
        "crates/serve/src",
        "crates/bench/src",
        "src",
    ]
    .map(|folder| Crate::read(&root.join(folder)))
}

#[test]
fn circles_of_imports_are_small() {
    for (one, most) in crates().iter().zip(MAX_CIRCLES) {
        let mut found: Vec<_> = one.circles();
        found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        let largest: Vec<String> =
            found.first().into_iter().flatten().map(|module| module.join("::")).collect();
        println!("{} circles, the largest of {}", found.len(), largest.len());
        assert!(largest.len() <= most, "{} files use each other: {largest:?}", largest.len());
    }
}

#[test]
fn types_have_few_methods() {
    for one in crates() {
        let mut found: Vec<_> = one.methods().into_iter().map(|(name, n)| (n, name)).collect();
        found.sort();
        assert!(found.len() > 10);
        let most: Vec<_> = found.iter().rev().take(5).collect();
        println!("{most:?}");
        assert!(most[0].0 <= MAX_METHODS, "split these types: {most:?}");
    }
}

#[test]
fn circles_and_methods_are_counted() {
    let path = |text: &str| -> ItemPath {
        text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let file = |name: &str, text: &str| (path(name), code(text));
    let modules = [
        file("", "pub mod a;\npub mod b;\n"),
        file("a", "mod leaf;\npub use self::leaf::Leaf; // crate::b\nfn f() { crate::b::g() }\n"),
        file(
            "a::leaf",
            "pub struct Leaf;\nimpl Leaf {\n    pub fn one() {}\n}\nimpl Drop for Leaf {\n    fn drop() {}\n}\n",
        ),
        file(
            "b",
            "use crate::a::{Leaf, self as first};\npub fn g() { f('\"', \"crate::c::d\", r#\"\"crate::c\"#) }\n",
        ),
        file("c", "use super::a::Leaf;\n#[cfg(test)]\nmod tests {\n    use super::b;\n}\n"),
    ];
    let found = Crate::of(modules.into());
    let names = |circle: &BTreeSet<ItemPath>| circle.iter().map(|m| m.join("::")).collect::<Vec<_>>();
    assert_eq!(found.circles().iter().map(names).collect::<Vec<_>>(), [["a", "b"]]);
    assert_eq!(found.defining(&path("a::Leaf::one"), 0), path("a::leaf"));
    assert_eq!(found.methods()["Leaf"], 2);
}
