//! Typed records: what the schema of a type lets through is a value of the type.
//!
//! Random walks through the masks end in texts; each must be read as the type whose schema gave the
//! masks. No model is needed, and models write less odd texts than these walks. `SystemTime` is left
//! out: its schema allows seconds that overflow it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::{NonZeroI16, NonZeroI32, NonZeroU8};
use std::sync::OnceLock;
use std::time::Duration;

use ffwd::{Constraint, Policy, TokenId, Whitespace};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{Setting, row};
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Tokens of a walk before it is completed on the shortest path.
const STEPS: usize = 40;

fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| Setting::new(7, 300, &[]))
}

/// Returns a text of the schema.
fn text(constraint: &Constraint, random: &mut Random) -> String {
    let grammar = setting().compiler.compile(constraint).unwrap();
    let mut matcher = grammar.matcher();
    let mut bytes = Vec::new();
    let steps = random.below(STEPS);
    for _ in 0..steps {
        let tokens = &setting().words.tokens;
        let legal: Vec<TokenId> =
            row(&mut matcher).into_iter().filter(|&t| !tokens[t as usize].is_empty()).collect();
        // Numbers go on for as long as they can, so that they come near their bounds.
        let digits: Vec<TokenId> =
            legal.iter().copied().filter(|&t| tokens[t as usize].iter().all(u8::is_ascii_digit)).collect();
        let among = if random.chance(60) && !digits.is_empty() { &digits } else { &legal };
        if among.is_empty() {
            break;
        }
        let token = *random.pick(among);
        matcher.accept_token(token).unwrap();
        bytes.extend_from_slice(&tokens[token as usize]);
    }
    bytes.extend(matcher.shortest_completion(10_000).expect("a text that can end"));
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Reads texts of the schema of a type; returns the longest of them.
fn read<T: DeserializeOwned + JsonSchema>(walks: u64) -> String {
    let schema = schema_for!(T).to_value().to_string();
    let mut longest = String::new();
    for whitespace in [Whitespace::Compact, Whitespace::SingleSpace] {
        let policy = Policy { whitespace, closed_objects: true, ..Policy::default() };
        let constraint = Constraint::builder().policy(policy).json_schema(&schema).unwrap();
        assert!(constraint.warnings().is_empty(), "{schema}: {:?}", constraint.warnings());
        for seed in 0..walks {
            let text = text(&constraint, &mut Random::new(seed));
            if let Err(e) = serde_json::from_str::<T>(&text) {
                panic!("{text} is no {}: {e}\n{schema}", std::any::type_name::<T>());
            }
            if text.len() > longest.len() {
                longest = text;
            }
        }
    }
    longest
}

#[test]
fn numbers() {
    // The longest number shows that the walks reach the bounds.
    assert_eq!(read::<i8>(150).len(), 4);
    assert_eq!(read::<i16>(150).len(), 6);
    assert_eq!(read::<i32>(150).len(), 11);
    assert_eq!(read::<i64>(150).len(), 20);
    assert_eq!(read::<u8>(150).len(), 3);
    assert_eq!(read::<u16>(150).len(), 5);
    assert_eq!(read::<u32>(150).len(), 10);
    assert_eq!(read::<u64>(150).len(), 20);
    assert!(read::<i128>(150).len() > 19);
    assert!(read::<u128>(150).len() > 19);
    assert_eq!(read::<isize>(150).len(), 20);
    assert_eq!(read::<usize>(150).len(), 20);
    assert_eq!(read::<NonZeroU8>(150).len(), 3);
    assert_eq!(read::<NonZeroI32>(150).len(), 11);
    assert!(read::<f32>(150).len() > 20);
    assert!(read::<f64>(150).len() > 20);
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Inner {
    small: u8,
    maybe: Option<i16>,
    many: Vec<f32>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
enum Tagged {
    Unit,
    One(i32),
    Pair(u16, String),
    Named { at: i64 },
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(dead_code)]
enum Internal {
    Nothing,
    Inner(Inner),
    Count { n: u32 },
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum Untagged {
    Number(i32),
    Text(String),
    List(Vec<u8>),
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Outer {
    #[serde(flatten)]
    inner: Inner,
    tagged: Tagged,
    #[serde(default)]
    internal: Option<Internal>,
    untagged: Untagged,
    next: Option<Box<Outer>>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Numbers {
    bytes: (i8, u8, NonZeroU8),
    words: (i16, u16, NonZeroI16),
    singles: (i32, u32, f32),
    doubles: (i64, u64, f64),
    quads: (i128, u128),
    sizes: (isize, usize),
    letter: char,
    address: IpAddr,
    maybe: Option<i8>,
}

#[test]
fn records() {
    read::<Numbers>(60);
    read::<Inner>(60);
    read::<Tagged>(60);
    read::<Internal>(60);
    read::<Untagged>(60);
    read::<Outer>(60);
}

#[test]
fn values_of_the_standard_library() {
    read::<bool>(10);
    read::<char>(40);
    read::<String>(40);
    read::<Option<u8>>(40);
    read::<(u8, i16, String)>(40);
    read::<[u8; 3]>(40);
    read::<Vec<Option<i8>>>(40);
    read::<BTreeSet<u8>>(40);
    read::<HashMap<String, i32>>(40);
    read::<BTreeMap<String, Vec<u16>>>(40);
    read::<Duration>(60);
    read::<std::ops::Range<u8>>(40);
    read::<Ipv4Addr>(40);
    read::<Ipv6Addr>(40);
    read::<IpAddr>(40);
    read::<std::path::PathBuf>(20);
}
