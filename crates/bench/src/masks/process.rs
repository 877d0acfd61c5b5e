//! Engines in a process of their own, such as those that are called from Python.
//!
//! The process answers each line on its standard input by one on its standard output, both JSON. It
//! measures the times itself, so that those of the pipe do not count:
//!
//! ```text
//! {"tokenizer": "tokenizer.json", "ends": [2]}   {"name": "XGrammar"}
//! {"kind": "json_schema", "text": "..."}         {"ns": 48000} or {"error": "..."}
//! {"tokens": [7, 12]}                            {"start": 90, "masks": [800, 650], "accepts": [200, 210],
//!                                                 "fault": null, "bytes": 51000}
//! ```
//!
//! `kind` is `json_schema`, `lark` or `gbnf`; for `gbnf`, `lark` may have the same language in Lark's
//! notation. A fault is `not in mask`, `refused`, `incomplete`, or why there is no mask. A process that
//! ends counts as a refusal, and another one is started for the next language.
//!
//! # Alternatives considered
//!
//! Libraries in C++ as dependencies were rejected: they need a compiler and CMake for every build, and
//! some schemas end their process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use ffwd_runtime::{Error, ErrorKind, Result, TokenId, Vocabulary};
use serde::Deserialize;
use serde_json::{Value, json};

use super::engine::{Language, MaskEngine, TextWalk, WalkFault};

/// An engine in a process of its own.
pub(super) struct ProcessEngine {
    command: String,
    greeting: Value,
    name: String,
    running: Option<EngineProcess>,
    bytes: Option<usize>,
}

struct EngineProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EngineReply {
    name: String,
    error: Option<String>,
    ns: u64,
    start: u64,
    masks: Vec<u64>,
    accepts: Vec<u64>,
    fault: Option<String>,
    bytes: Option<usize>,
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl EngineProcess {
    fn start(command: &str) -> std::io::Result<Self> {
        let mut words = command.split_whitespace();
        let mut process = Command::new(words.next().unwrap_or_default());
        let mut child = process.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| std::io::Error::other("no pipes"))?;
        Ok(EngineProcess { child, input, output: BufReader::new(output) })
    }

    fn ask(&mut self, question: &Value) -> Result<EngineReply, String> {
        let mut line = String::new();
        let asked = writeln!(self.input, "{question}").and_then(|()| self.input.flush());
        let read = asked.and_then(|()| self.output.read_line(&mut line)).map_err(|e| e.to_string())?;
        if read == 0 {
            return Err("its process has ended".to_owned());
        }
        let answer: EngineReply =
            serde_json::from_str(&line).map_err(|e| format!("{line:?} is no answer: {e}"))?;
        answer.error.clone().map_or(Ok(answer), Err)
    }
}

impl ProcessEngine {
    /// Starts the process.
    ///
    /// # Errors
    /// If it does not start, or does not answer.
    pub(super) fn new(command: &str, tokenizer: &Path, vocab: &Vocabulary) -> Result<Self> {
        let greeting = json!({"tokenizer": tokenizer, "ends": vocab.eos()});
        let mut engine = ProcessEngine {
            command: command.to_owned(),
            greeting,
            name: command.to_owned(),
            running: None,
            bytes: None,
        };
        engine.ask(None).map_err(|e| Error::new(ErrorKind::InvalidOption, format!("{command}: {e}")))?;
        Ok(engine)
    }

    /// Starts the process unless it runs, and asks a question if there is one.
    fn ask(&mut self, question: Option<&Value>) -> Result<EngineReply, String> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => {
                let mut running = EngineProcess::start(&self.command).map_err(|e| e.to_string())?;
                self.name = running.ask(&self.greeting)?.name;
                running
            }
        };
        let answer = question.map_or_else(|| Ok(EngineReply::default()), |question| running.ask(question));
        // A process that has ended is started again with the next language.
        let ended = running.child.try_wait().is_ok_and(|status| status.is_some());
        self.running = (!ended).then_some(running);
        answer
    }
}

impl MaskEngine for ProcessEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn compile(&mut self, language: &Language) -> Result<Duration, String> {
        let question = match language {
            Language::JsonSchema(text) => json!({"kind": "json_schema", "text": text}),
            Language::Lark(text) => json!({"kind": "lark", "text": text}),
            Language::Gbnf { text, lark } => json!({"kind": "gbnf", "text": text, "lark": lark}),
        };
        self.ask(Some(&question)).map(|answer| Duration::from_nanos(answer.ns))
    }

    fn is_lazy(&self) -> bool {
        false
    }

    fn follow(&mut self, tokens: &[TokenId]) -> TextWalk {
        let answer = match self.running {
            Some(_) => self.ask(Some(&json!({"tokens": tokens}))),
            None => Err("its process has ended".to_owned()),
        };
        let answer =
            answer.unwrap_or_else(|error| EngineReply { fault: Some(error), ..EngineReply::default() });
        self.bytes = answer.bytes;
        let times = |ns: Vec<u64>| ns.into_iter().map(Duration::from_nanos).collect();
        TextWalk {
            start: Duration::from_nanos(answer.start),
            masks: times(answer.masks),
            accepts: times(answer.accepts),
            fault: answer.fault.map(|fault| match &*fault {
                "not in mask" => WalkFault::NotInMask,
                "refused" => WalkFault::Refused,
                "incomplete" => WalkFault::Incomplete,
                _ => WalkFault::NoMask(fault),
            }),
        }
    }

    fn bytes(&self) -> Option<usize> {
        self.bytes
    }
}
