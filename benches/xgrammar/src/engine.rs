//! XGrammar as an engine of MaskBench.
//!
//! Its bindings build the C++ library. White space is off and the separators are compact, as for
//! the other engines; one thread, no cache of compiled grammars. The masks of a schema's states are
//! computed when it is compiled. So work that others do at the first visit of a state is in the
//! time of its first mask.
//!
//! `strict` is its own default. It forbids properties and items that the schema does not name.
//! Without it the keywords mean the same as in JSON Schema.
//!
//! Some schemas end the process (by a signal, without a message), others take minutes. Each is
//! tried in a child process first, and a schema that ends the child counts as refused.
//!
//! # Alternatives considered
//!
//! - Measuring in the child: the copying of its pages would count as time of the masks.
//! - Calling it through Python, as MaskBench itself does: the call would cost more than many masks.

use std::time::Instant;

use dlpark::prelude::{SafeManagedTensorVersioned, TensorView};
use ffwd_engine::Vocabulary;
use ffwd_maskbench::engines::{MaskEngine, Prepared, ms};
use ffwd_maskbench::options::Args;
use ffwd_maskbench::report::Outcome;
use xgrammar::{CompiledGrammar, GrammarCompiler, GrammarMatcher, TokenizerInfo};

/// XGrammar with its row for masks.
pub struct XGrammar {
    compiler: GrammarCompiler,
    row: SafeManagedTensorVersioned,
    strict: bool,
    setup_ms: f64,
}

impl XGrammar {
    pub fn new(options: &Args, vocab: &Vocabulary, strict: bool) -> Result<Self, String> {
        let started = Instant::now();
        let text = std::fs::read_to_string(options.tokenizer()).map_err(|e| e.to_string())?;
        let ends = vocab.eos().iter().map(|&id| id as i32).collect();
        let info =
            TokenizerInfo::from_backend_str(&text, Some(vocab.len()), ends).map_err(|e| e.to_string())?;
        let compiler = GrammarCompiler::with(&info, Some(1), Some(false), None);
        let words = xgrammar::get_bitmask_size(info.get_vocab_size()) as usize;
        let row = SafeManagedTensorVersioned::new(vec![0i32; words]).map_err(|e| e.to_string())?;
        Ok(XGrammar { compiler, row, strict, setup_ms: ms(started) })
    }

    /// Compiles the schema and follows every instance, in this process.
    fn follow(&mut self, prepared: &Prepared) -> Outcome {
        let mut outcome = Outcome::default();
        let started = Instant::now();
        let first = self.compile(prepared.schema).and_then(|grammar| {
            let mut matcher = GrammarMatcher::with(&grammar, None, Some(false), None);
            matcher.fill_next_token_bitmask(&mut self.row, None, None).map_err(|e| e.to_string())?;
            Ok((grammar, matcher))
        });
        outcome.first_mask = started.elapsed();
        let (grammar, base) = match first {
            Ok(made) => made,
            Err(error) => {
                outcome.compile_error = Some(error);
                return outcome;
            }
        };
        for (number, walk) in prepared.instances.iter().enumerate() {
            let mut matcher = base.fork();
            let end = outcome.follow(
                number,
                walk,
                &mut (&mut matcher, &mut self.row, None),
                |(m, row, failed): &mut (
                    &mut GrammarMatcher,
                    &mut SafeManagedTensorVersioned,
                    Option<String>,
                ),
                 token| {
                    match m.fill_next_token_bitmask(row, None, None) {
                        Ok(_) => allowed(row, token),
                        Err(e) => {
                            *failed = Some(e.to_string());
                            false
                        }
                    }
                },
                |(m, ..), token| match m.accept_token(token as i32, None) {
                    true => Ok(()),
                    false => Err("a token of the mask was not accepted".into()),
                },
                |(m, _, failed)| match failed.take() {
                    Some(e) => Err(e),
                    None => Ok(m.is_completed()),
                },
            );
            outcome.end(number, walk, end);
        }
        outcome.bytes = grammar.memory_size_bytes();
        outcome
    }

    fn compile(&self, schema: &str) -> Result<CompiledGrammar, String> {
        let separators = Some((",".to_string(), ":".to_string()));
        self.compiler
            .compile_json_schema(schema, Some(false), None, separators, Some(self.strict), None, None)
            .map_err(|e| e.to_string())
    }
}

/// Most seconds of the processor for one schema with its instances.
const LIMIT: u64 = 60;

/// Whether a child process does the work to its end; why not, if it does not.
fn survives(work: impl FnOnce()) -> Result<(), String> {
    // SAFETY: the child runs on this thread alone, unwinds into nothing, and leaves without running
    // what is registered for the end of the process.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err("no child process can be started".into()),
        0 => {
            let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: LIMIT + 1 };
            // SAFETY: the limit is the child's own; the signal has no handler and ends it.
            unsafe { libc::setrlimit(libc::RLIMIT_CPU, &limit) };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: nothing of the child is needed any more.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        _ => {
            let mut status = 0;
            // SAFETY: the child was started above and is waited for once.
            unsafe { libc::waitpid(child, &mut status, 0) };
            match (libc::WIFSIGNALED(status), libc::WTERMSIG(status)) {
                (true, libc::SIGXCPU) => Err(format!("not done after {LIMIT} s")),
                (true, signal) => Err(format!("the process dies of signal {signal}")),
                (false, _) if status != 0 => Err("the bindings panic".into()),
                (false, _) => Ok(()),
            }
        }
    }
}

/// Whether a token's bit is set. The row is all ones where the engine says that it need not be
/// applied.
fn allowed(row: &SafeManagedTensorVersioned, token: u32) -> bool {
    let words: &[i32] = row.as_slice_contiguous().expect("a row of 32-bit words");
    words[token as usize / 32] >> (token % 32) & 1 == 1
}

impl MaskEngine for XGrammar {
    fn settings(&self) -> String {
        format!(
            "0.2.8 (crate 0.6.0), any_whitespace false, strict_mode {}, one thread, cache off; set up in {:.0} ms",
            self.strict, self.setup_ms
        )
    }

    fn run(&mut self, prepared: &Prepared) -> Outcome {
        match survives(|| drop(self.follow(prepared))) {
            Ok(()) => self.follow(prepared),
            Err(error) => {
                let mut outcome = Outcome::default();
                outcome.compile_error = Some(error);
                outcome
            }
        }
    }
}
