//! Renders a chat template in the way of the hub's libraries, with limits on steps and depth.
//!
//! White space around blocks is trimmed; `jinja` adds what Jinja and Python have and `minijinja` has
//! not.
//!
//! Templates are untrusted, and `minijinja` recurs on consecutive operators and on nested values.
//! Each level takes at least a byte of the template or four steps. So limits on both bound the
//! depth, and rendering runs on a thread whose stack is large enough for it.
//!
//! # Alternatives considered
//! Counting levels before parsing was rejected: it needs a second lexer, and any difference between
//! the two lexers would be a security hole.

use std::sync::Arc;
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as Variable};
use minijinja::{AutoEscape, Environment, ErrorKind as Fault};
use serde_json::{Map, Value};

use super::{MAX_TEMPLATE, jinja, strftime};
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum number of steps of one rendering. A conversation takes some tens of steps per message.
const MAX_STEPS: u64 = 400_000;
/// Size of the stack in bytes. Only the used part becomes memory. It is several times the use
/// measured without optimisation for the deepest template and the deepest value (4 KiB per level of
/// 2 bytes, 2 KiB per 4 steps).
const STACK: usize = 1 << 30;
/// The prefix that distinguishes a message of `raise_exception` from other errors.
const RAISED: &str = "raised by the chat template: ";

/// A template that parses.
#[derive(Debug, Clone)]
pub(super) struct Template {
    source: Arc<str>,
    environment: Arc<Environment<'static>>,
}

impl Template {
    pub(super) fn new(source: &str) -> Result<Self> {
        if source.len() > MAX_TEMPLATE {
            let message = format!("a chat template of {} bytes, the limit is {MAX_TEMPLATE}", source.len());
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| failure(&e))?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(MAX_STEPS));
        jinja::add_to(&mut environment);
        environment.add_function("raise_exception", raise);
        let text = jinja::normalize(source).into_owned();
        with_stack(|| environment.add_template_owned("chat", text).map_err(|e| failure(&e)))?;
        Ok(Template { source: source.into(), environment: Arc::new(environment) })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn render(&self, context: &Map<String, Value>, now: SystemTime) -> Result<String> {
        with_stack(|| self.run(context, now))
    }

    fn run(&self, context: &Map<String, Value>, now: SystemTime) -> Result<String> {
        let clock = Variable::from_function(move |format: &str| strftime::strftime(now, format));
        let mut all: Vec<(&str, Variable)> =
            context.iter().map(|(name, value)| (name.as_str(), Variable::from(Serde(value)))).collect();
        all.push(("strftime_now", clock));
        let template = self.environment.get_template("chat").map_err(|e| failure(&e))?;
        template.render(Variable::from_pairs(all)).map_err(|e| failure(&e))
    }
}

/// Runs `work` on a thread with stack for deep recursion; turns a panic into an error.
fn with_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("chat template".into()).stack_size(STACK);
        let thread = thread
            .spawn_scoped(scope, work)
            .map_err(|e| Error::new(ErrorKind::TooComplex, format!("no stack for the chat template: {e}")))?;
        thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Model, "the chat template cannot be run")))
    })
}

fn failure(e: &minijinja::Error) -> Error {
    let detail = e.detail().unwrap_or("");
    if let Some(message) = detail.strip_prefix(RAISED) {
        let message: String = message.chars().take(300).collect();
        return Error::new(
            ErrorKind::InvalidOption,
            format!("the chat template refuses the messages: {message}"),
        )
        .hint("templates have their own rules: which roles there are and in which order");
    }
    let error = match e.kind() {
        Fault::OutOfFuel => {
            Error::new(ErrorKind::TooComplex, format!("the chat template takes more than {MAX_STEPS} steps"))
        }
        kind if detail.is_empty() => Error::new(ErrorKind::Model, format!("the chat template: {kind}")),
        kind => {
            let detail: String = detail.chars().take(300).collect();
            Error::new(ErrorKind::Model, format!("the chat template: {kind}: {detail}"))
        }
    };
    match e.line() {
        Some(line) => error.at(Place::LineColumn(line, 1)),
        None => error,
    }
}

fn fault(message: impl Into<String>) -> minijinja::Error {
    minijinja::Error::new(Fault::InvalidOperation, message.into())
}

fn raise(message: &str) -> std::result::Result<Variable, minijinja::Error> {
    Err(fault(format!("{RAISED}{message}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, context: Value) -> Result<String> {
        Template::new(source)?.render(context.as_object().unwrap(), SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn faults_are_errors() {
        let none = || serde_json::json!({});
        let e = render("{{ raise_exception('roles must alternate') }}", none()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidOption);
        assert!(e.message().ends_with("messages: roles must alternate"), "{e}");
        let e = render("\n{% if %}", none()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Model);
        assert!(e.places().contains(&Place::LineColumn(2, 1)), "{e}");
        assert_eq!(render("{{ s.missing.too }}", none()).unwrap_err().kind(), ErrorKind::Model);
        for bad in ["indent=99", "indent=[]", "separators=(',',)", "separators=(1, 2)", "what=1"] {
            assert!(render(&format!("{{{{ [1] | tojson({bad}) }}}}"), none()).is_err(), "{bad}");
        }
        assert!(render("{{ x | no_such_filter }}", none()).is_err());
        let long = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert_eq!(render(long, none()).unwrap_err().kind(), ErrorKind::TooComplex);
        assert!(render(&"(".repeat(100_000), none()).is_ok(), "just text");
        let deep = format!("{}{}", "{% if 1 %}".repeat(5_000), "{% endif %}".repeat(5_000));
        assert!(render(&deep, none()).is_err());
        assert!(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", none()).is_err());
        assert!(render("{% include 'chat' %}", none()).is_err());
        let wide = [
            "'a'.center(9999999999)",
            "'a'.zfill(99999999)",
            "'a'|indent(99999999)",
            "3 is divisibleby 0",
            "'{:9999999999}'.format(1)",
            "'{0:.99999999999999999999f}'.format(1.5)",
            "'%9999999999d'|format(1)",
            "'%(a).999999999s'|format(a=1)",
        ];
        for wide in wide {
            assert!(render(&format!("{{{{ {wide} }}}}"), none()).is_err(), "{wide}");
        }
        for wide in ["('\t' * 99999).expandtabs(60000)", "('\n' * 99999)|indent(60000, blank=true)"] {
            assert!(render(&format!("{{{{ {wide} }}}}"), none()).is_err(), "{wide}");
        }
        assert_eq!(render(&" ".repeat(MAX_TEMPLATE + 1), none()).unwrap_err().kind(), ErrorKind::TooComplex);
    }

    /// The deepest inputs within the limits give an answer or an error; the process does not crash.
    #[test]
    fn deep_templates_and_values_do_not_overflow() {
        let room = MAX_TEMPLATE - 100;
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("not ", ""),
            ("-", ""),
            ("x[", "]"),
            ("", ".a"),
            ("", "|e"),
            ("", "()"),
            ("", "+1"),
            ("", "~1"),
            ("", "**1"),
            ("", " and 1"),
            ("", " if 1 else 1"),
        ] {
            let n = room / (open.len() + close.len());
            let deep = format!("{{{{ {}1{} }}}}", open.repeat(n), close.repeat(n));
            drop(render(&deep, serde_json::json!({})));
        }
        let elif = "{%elif 0%}";
        let deep = format!("{{% if 0 %}}{}{{% endif %}}", elif.repeat(room / elif.len()));
        drop(render(&deep, serde_json::json!({})));
        for show in
            ["{{ ns.l }}", "{{ ns.l | tojson }}", "{{ ns.l == ns.l }}", "{{ ns.l | string | length }}", ""]
        {
            let deep = format!(
                "{{% set ns = namespace(l=[]) %}}{{% for a in range(900) %}}{{% for b in range(99) %}}\
                 {{% set ns.l = [ns.l] %}}{{% endfor %}}{{% endfor %}}{show}"
            );
            drop(render(&deep, serde_json::json!({})));
        }
    }
}
