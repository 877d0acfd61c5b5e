//! The environment variables that tests and benchmarks read: one function for each, with its
//! default.
//!
//! The table in `CONTRIBUTING.md` has the same variables. A value that is not a number counts as
//! not set. A variable that switches something on does so with any value.

use std::ffi::OsString;
use std::ops::Div;
use std::path::PathBuf;
use std::str::FromStr;

/// How many times more random cases the long tier runs.
const LONGER: u8 = 5;

fn number<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn on(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

fn equals(name: &str, value: &str) -> bool {
    std::env::var_os(name).is_some_and(|v| v == value)
}

/// `FFWD_BENCH_DIR`: the folder with the benchmark data.
pub fn bench_dir() -> Option<OsString> {
    std::env::var_os("FFWD_BENCH_DIR")
}

/// `FFWD_C_LIBRARY`: the static library that the programs in C are linked with, instead of the one
/// that the tests were built with.
pub fn c_library() -> Option<OsString> {
    std::env::var_os("FFWD_C_LIBRARY")
}

/// `FFWD_C_FLAGS`: further flags of the compilers of C and C++, between spaces.
pub fn c_flags() -> String {
    std::env::var("FFWD_C_FLAGS").unwrap_or_default()
}

/// `FFWD_C_RUNNER`: what the programs in C are run with, such as `valgrind -q`.
pub fn c_runner() -> String {
    std::env::var("FFWD_C_RUNNER").unwrap_or_default()
}

/// `FFWD_REAL_MODELS`: the folder with published models, as `benches/real_models/fetch.py` writes
/// them; tests on real weights skip without it.
pub fn real_models() -> Option<OsString> {
    std::env::var_os("FFWD_REAL_MODELS")
}

/// `FFWD_TEST=long`: all random cases, as CI runs them (default: a fifth of them).
pub fn long() -> bool {
    equals("FFWD_TEST", "long")
}

/// The number of random cases of this tier.
fn tier<T: Div<Output = T> + From<u8> + Ord>(cases: T) -> T {
    if long() { cases } else { (cases / T::from(LONGER)).max(T::from(1)) }
}

/// `FFWD_ORACLE_CASES`: the number of random cases; each test has its own default, that of the long
/// tier.
pub fn oracle_cases<T: FromStr + Div<Output = T> + From<u8> + Ord>(default: T) -> T {
    number("FFWD_ORACLE_CASES").unwrap_or_else(|| tier(default))
}

/// `FFWD_ORACLE_SEED`: another series of random cases (default 0).
pub fn oracle_seed() -> u64 {
    number("FFWD_ORACLE_SEED").unwrap_or(0)
}

/// `FFWD_ORACLE_ONLY`: the one seed to run, from a failure report (default: all).
pub fn oracle_only() -> Option<u64> {
    number("FFWD_ORACLE_ONLY")
}

/// `FFWD_ORACLE_TRACE`: print each case, or each completion that is not the shortest.
pub fn oracle_trace() -> bool {
    on("FFWD_ORACLE_TRACE")
}

/// `FFWD_WALKS`: random walks for each schema (default 3).
pub fn walks() -> u64 {
    number("FFWD_WALKS").unwrap_or_else(|| tier(3))
}

/// `FFWD_WALKS_ALL`: walk through all schemas of the development set instead of a sample.
pub fn walks_all() -> bool {
    on("FFWD_WALKS_ALL")
}

/// `FFWD_REAL_MASKS`: random expressions and grammars, and states for each schema; each test has
/// its own default.
pub fn real_masks(default: usize) -> usize {
    number("FFWD_REAL_MASKS").unwrap_or_else(|| tier(default))
}

/// `FFWD_REAL_SEED`: another series of random expressions and states (default 0).
pub fn real_seed() -> u64 {
    number("FFWD_REAL_SEED").unwrap_or(0)
}

/// `FFWD_REAL_ALL`: compare masks for all schemas of the development set.
pub fn real_all() -> bool {
    on("FFWD_REAL_ALL")
}

/// `FFWD_OUTPUTS`: N takes every N-th schema of the development set (default 101).
pub fn outputs() -> usize {
    number("FFWD_OUTPUTS").unwrap_or(101)
}

/// `FFWD_OUTPUTS_FROM`: the number of the first schema (default 0).
pub fn outputs_from() -> usize {
    number("FFWD_OUTPUTS_FROM").unwrap_or(0)
}

/// `FFWD_COVERAGE=list`: name the schemas that do not pass.
pub fn coverage_list() -> bool {
    equals("FFWD_COVERAGE", "list")
}

/// `FFWD_RATCHET=write`: store the new result in `tests/data/coverage.tsv`.
pub fn ratchet_write() -> bool {
    equals("FFWD_RATCHET", "write")
}

/// `FFWD_SUITE_LIST`: list the results of the test suite that are not right.
pub fn suite_list() -> bool {
    on("FFWD_SUITE_LIST")
}

/// `FFWD_EXACTNESS`: the number of random generations (default 200).
pub fn exactness() -> usize {
    number("FFWD_EXACTNESS").unwrap_or_else(|| tier(200))
}

/// `FFWD_EXACTNESS_PRECISION`: `stored`, `f32`, `q8_0` or `q4_k` (default: the first precision
/// with the same bits in any batch).
pub fn exactness_precision() -> Option<String> {
    std::env::var("FFWD_EXACTNESS_PRECISION").ok()
}

/// `FFWD_EXACTNESS_DEVICE`: a device such as `cpu` (default: this crate's kernels).
pub fn exactness_device() -> Option<String> {
    std::env::var("FFWD_EXACTNESS_DEVICE").ok()
}

/// `FFWD_EXACTNESS_MODEL`: a model file or folder for the random generations (default: embedded).
pub fn exactness_model() -> Option<OsString> {
    std::env::var_os("FFWD_EXACTNESS_MODEL")
}

/// `FFWD_EXACTNESS_DRAFT`: its draft model (default: none with a model of one's own).
pub fn exactness_draft() -> Option<OsString> {
    std::env::var_os("FFWD_EXACTNESS_DRAFT")
}

/// `FFWD_EXACTNESS_SEED`: another series of random generations (default 0).
pub fn exactness_seed() -> u64 {
    number("FFWD_EXACTNESS_SEED").unwrap_or(0)
}

/// `FFWD_DRAWS`: draws for the chi-square test (default 4000).
pub fn draws() -> u64 {
    number("FFWD_DRAWS").unwrap_or(4000)
}

/// `FFWD_EVAL_ALL`: run all evaluation texts instead of some.
pub fn eval_all() -> bool {
    on("FFWD_EVAL_ALL")
}

/// `FFWD_WRITE_TABLES`: write measured tables into the documentation.
pub fn write_tables() -> bool {
    on("FFWD_WRITE_TABLES")
}

/// `CARGO_TARGET_DIR`: cargo's folder for build output (default: known from the program's path).
pub fn target_dir() -> Option<PathBuf> {
    std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from)
}

/// `CRITERION_HOME`: Criterion's folder for results (default: `criterion` in the target folder).
pub fn criterion_home() -> Option<PathBuf> {
    std::env::var_os("CRITERION_HOME").map(PathBuf::from)
}

/// `CANDLE_NUM_THREADS`: threads of a forward (default: known from the machine).
pub fn candle_threads() -> Option<usize> {
    number("CANDLE_NUM_THREADS")
}

/// `FFWD_TEST_CHILD`: the name of the test that a child process of the tests runs. Tests set it
/// themselves; see [`crate::child`].
pub fn test_child() -> Option<String> {
    std::env::var(TEST_CHILD).ok()
}

pub(crate) const TEST_CHILD: &str = "FFWD_TEST_CHILD";
