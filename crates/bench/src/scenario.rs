//! Scenarios: what a model writes in a benchmark, read from TOML.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ffwd_runtime::constraint::token_machine::Labels;
use ffwd_runtime::constraint::tools::{Calls, ToolChoice, ToolStyle, Tools};
use ffwd_runtime::error::Place;
use ffwd_runtime::extract::Extractor;
use ffwd_runtime::extract::corpus::read_text;
use ffwd_runtime::{
    ChatOptions, CompiledGrammar, Constraint, Engine, Error, ErrorKind, Message, Policy, Prompt, Request,
    Result,
};
use serde::Deserialize;
use toml::Spanned;

/// The scenarios of the program.
pub const BUILT_IN: &str = include_str!("scenarios.toml");
/// Maximum size of a file of scenarios in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of scenarios in a file.
const MAX_SCENARIOS: usize = 256;
/// Default limit of output tokens.
const MAX_TOKENS: usize = 512;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    #[serde(default)]
    scenario: Vec<Spanned<Scenario>>,
}

/// What a model writes: a text or a prompt, and a constraint.
///
/// The kinds of constraints are fields of their own, because `serde` cannot refuse unknown keys of a
/// part.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct Scenario {
    pub name: String,
    pub about: String,
    /// The text from which a record is extracted.
    text: Option<String>,
    /// Several such texts, of which each round takes the next one.
    texts: Vec<String>,
    /// The prompt of anything else.
    prompt: Option<String>,
    /// What is copied from, in place of the text or the prompt.
    source: Option<String>,
    pub max_tokens: Option<usize>,
    schema: Option<String>,
    schema_file: Option<PathBuf>,
    regex: Option<String>,
    pattern: Option<String>,
    grammar: Option<String>,
    choice: Option<Vec<String>>,
    labels: Option<Vec<String>>,
    structural_tag: Option<String>,
    tools: Option<String>,
}

impl Scenario {
    /// Returns the names of the keys that are given.
    fn given(&self) -> Vec<&'static str> {
        let keys = [
            ("schema", self.schema.is_some()),
            ("schema-file", self.schema_file.is_some()),
            ("regex", self.regex.is_some()),
            ("pattern", self.pattern.is_some()),
            ("grammar", self.grammar.is_some()),
            ("choice", self.choice.is_some()),
            ("labels", self.labels.is_some()),
            ("structural-tag", self.structural_tag.is_some()),
            ("tools", self.tools.is_some()),
        ];
        keys.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }
}

/// A scenario made ready for an engine.
pub(crate) struct ReadyScenario {
    pub kind: &'static str,
    pub grammar: Option<CompiledGrammar>,
    prompt: Prompt,
    source: Option<String>,
    /// True if the constraint is a JSON Schema.
    pub json: bool,
}

impl ReadyScenario {
    /// Returns the request, with the constraint or without it.
    pub(crate) fn request(&self, constrained: bool) -> Request {
        let mut request = Request::new(self.prompt.clone());
        if let Some(source) = &self.source {
            request = request.source(source);
        }
        if constrained && let Some(grammar) = &self.grammar {
            request = request.grammar(grammar.clone());
            if self.json {
                request = request.guard(true).end_at_words(true);
            }
        }
        request
    }
}

impl Scenario {
    /// Returns a scenario of the user's own schema and text.
    pub(crate) fn extraction(schema: String, text: String) -> Self {
        Scenario { name: "own schema".into(), text: Some(text), schema: Some(schema), ..Scenario::default() }
    }

    pub(crate) fn max_tokens(&self) -> usize {
        self.max_tokens.unwrap_or(MAX_TOKENS)
    }

    /// Returns the texts that must be tokens of their own, such as the start of a tool call.
    pub(crate) fn marks(&self) -> Result<Vec<String>> {
        let tools = self.tools.as_deref().map(Tools::parse).transpose()?;
        let constraint = match (&tools, &self.structural_tag) {
            (Some(tools), _) => tools.constraint(ToolStyle::Hermes, &one_call(), Policy::default())?,
            (None, Some(tag)) => Constraint::structural_tag(tag)?,
            (None, None) => return Ok(Vec::new()),
        };
        Ok(constraint.ir().marks.clone())
    }

    /// Returns the scenario made ready for an engine, once for each of its texts.
    ///
    /// # Errors
    /// If the constraint does not compile, or a text is blank.
    pub(crate) fn prepare(&self, engine: &Engine) -> Result<Vec<ReadyScenario>> {
        let kind = self.given().first().copied().unwrap_or("none");
        let schema = self.schema.as_deref();
        let json = schema.is_some();
        let texts: Vec<&String> = self.text.iter().chain(&self.texts).collect();
        if let (false, Some(schema)) = (texts.is_empty(), schema) {
            let extractor = Extractor::new(engine, schema)?;
            let compile = |constraint: &Constraint| engine.compiler().compile(constraint);
            let shared = extractor.shared_constraint().map(compile).transpose()?;
            let ready = |text: &String| {
                // The errors of a text are those of extraction.
                let request = extractor.request(text)?;
                let grammar = match &shared {
                    Some(grammar) => Some(grammar.clone()),
                    None => request.own_constraint().map(compile).transpose()?,
                };
                let source = Some(self.source.as_ref().unwrap_or(text).clone());
                Ok(ReadyScenario { kind, grammar, prompt: extractor.prompt(text)?, source, json })
            };
            return texts.into_iter().map(ready).collect();
        }
        let tools = self.tools.as_deref().map(Tools::parse).transpose()?;
        let constraint = self.constraint(engine, tools.as_ref())?;
        let grammar = constraint.map(|constraint| engine.compiler().compile(&constraint)).transpose()?;
        let text = self.prompt.clone().unwrap_or_default();
        let prompt = match &tools {
            // Without a template of its own, the model has seen no tools in training.
            Some(tools) if engine.chat_template()?.is_some() => {
                engine.chat_prompt(&[Message::user(&text)], &ChatOptions::with_tools(tools.for_prompt()))?
            }
            _ => Prompt::text(&text),
        };
        let source = Some(self.source.clone().unwrap_or(text));
        Ok(vec![ReadyScenario { kind, grammar, prompt, source, json }])
    }

    fn constraint(&self, engine: &Engine, tools: Option<&Tools>) -> Result<Option<Constraint>> {
        let policy = engine.extraction_policy();
        let builder = Constraint::builder().policy(policy.clone());
        let constraint = if let Some(schema) = &self.schema {
            builder.json_schema(schema)?
        } else if let Some(tools) = tools {
            tools.constraint(ToolStyle::Hermes, &one_call(), policy)?
        } else if let Some(regex) = &self.regex {
            Constraint::regex(regex)?
        } else if let Some(pattern) = &self.pattern {
            Constraint::pattern(pattern)?
        } else if let Some(grammar) = &self.grammar {
            Constraint::ebnf(grammar)?
        } else if let Some(choice) = &self.choice {
            Constraint::choice(choice)?
        } else if let Some(labels) = &self.labels {
            Constraint::labels(&Labels::new(labels))
        } else if let Some(tag) = &self.structural_tag {
            builder.structural_tag(tag)?
        } else {
            return Ok(None);
        };
        Ok(Some(constraint))
    }

    /// Returns the fault of a scenario that follows the syntax.
    fn fault(&self) -> Option<String> {
        let given = self.given();
        if self.name.trim().is_empty() {
            return Some("the name of a scenario is empty".into());
        }
        let has_text = self.text.is_some() || !self.texts.is_empty();
        let fault = match (has_text, self.prompt.is_some()) {
            (false, false) => "has neither `text` nor `prompt`".to_owned(),
            (true, true) => "has both `text` and `prompt`".to_owned(),
            (true, false) if !given.iter().any(|key| key.starts_with("schema")) => {
                "has a `text` without `schema` or `schema-file`".to_owned()
            }
            _ if given.len() > 1 => format!("has {} constraints: {}", given.len(), given.join(", ")),
            _ if self.max_tokens == Some(0) => "has `max-tokens = 0`".to_owned(),
            _ => return None,
        };
        Some(format!("the scenario {:?} {fault}", self.name))
    }
}

/// One call and nothing else.
fn one_call() -> ToolChoice {
    ToolChoice { calls: Calls::Required, single: true }
}

/// Reads the scenarios of the program.
pub(crate) fn built_in() -> Result<Vec<Scenario>> {
    parse(BUILT_IN)
}

/// Reads a file of scenarios. Files that it names are relative to its folder.
pub(crate) fn read(file: &Path) -> Result<Vec<Scenario>> {
    let in_file = |e: Error| e.at(Place::File(file.into()));
    let mut scenarios = parse(&read_text(file)?).map_err(in_file)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    for scenario in &mut scenarios {
        if let Some(schema) = scenario.schema_file.take() {
            scenario.schema = Some(read_text(&folder.join(schema))?);
        }
    }
    Ok(scenarios)
}

fn parse(text: &str) -> Result<Vec<Scenario>> {
    if text.len() > MAX_BYTES {
        let message = format!("{} bytes of scenarios, the limit is {MAX_BYTES}", text.len());
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    let wrong = |message: String, at: usize| {
        let (line, column) = line_column(text, at);
        Error::new(ErrorKind::InvalidOption, message).at(Place::LineColumn(line, column))
    };
    let file: ScenarioFile = toml::from_str(text).map_err(|e| {
        let message = e.message().replace('\n', ", ");
        wrong(
            format!("the scenarios are not what they should be: {message}"),
            e.span().map_or(0, |s| s.start),
        )
        .hint("`ffwd bench decode --list` prints the scenarios of the program as an example")
    })?;
    if file.scenario.is_empty() {
        return Err(wrong("there is no [[scenario]]".into(), 0));
    }
    if file.scenario.len() > MAX_SCENARIOS {
        let message = format!("{} scenarios, the limit is {MAX_SCENARIOS}", file.scenario.len());
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    let mut names = BTreeSet::new();
    for scenario in &file.scenario {
        let at = scenario.span().start;
        if let Some(fault) = scenario.as_ref().fault() {
            return Err(wrong(fault, at));
        }
        if !names.insert(scenario.as_ref().name.clone()) {
            return Err(wrong(format!("two scenarios have the name {:?}", scenario.as_ref().name), at));
        }
    }
    Ok(file.scenario.into_iter().map(Spanned::into_inner).collect())
}

/// Returns line and column of a byte, both from 1.
fn line_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let begin = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[begin..]).chars().count() + 1;
    (before.iter().filter(|b| **b == b'\n').count() + 1, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_scenarios_have_all_kinds_of_constraints_that_models_write() {
        let scenarios = built_in().unwrap();
        let kinds: BTreeSet<&str> = scenarios.iter().flat_map(Scenario::given).collect();
        assert_eq!(kinds, BTreeSet::from(["schema", "tools", "labels", "grammar"]));
    }

    #[test]
    fn faults_have_a_line_and_a_column() {
        let place = |text: &str| {
            let error = parse(text).err().unwrap_or_else(|| panic!("{text}"));
            match error.places() {
                [Place::LineColumn(line, column)] => (*line, *column, error.message().to_owned()),
                other => panic!("{text}: {other:?}"),
            }
        };
        let (line, column, _) = place("[[scenario]]\nname = \"a\"\nprompt = \"b\" x\n");
        assert_eq!((line, column), (3, 14));
        let (line, _, message) = place("[[scenario]]\nname = \"a\"\nprompt = \"b\"\nregx = \"c\"\n");
        assert!(line >= 1 && message.contains("regx"), "{message}");
        for (text, part) in [
            ("", "no [[scenario]]"),
            ("[[scenario]]\nname = \"\"\nprompt = \"a\"", "empty"),
            ("[[scenario]]\nname = \"a\"", "neither"),
            ("[[scenario]]\nname = \"a\"\ntext = \"a\"\nprompt = \"b\"", "both"),
            ("[[scenario]]\nname = \"a\"\ntext = \"a\"", "without `schema`"),
            ("[[scenario]]\nname = \"a\"\nprompt = \"a\"\nregex = \"a\"\nchoice = [\"b\"]", "2 constraints"),
            ("[[scenario]]\nname = \"a\"\nprompt = \"a\"\nmax-tokens = 0", "max-tokens"),
            ("[[scenario]]\nname = \"a\"\nprompt = \"a\"\nmax-tokens = -1", "scenarios"),
            ("[[scenario]]\nname = \"a\"\nprompt = \"a\"\n[[scenario]]\nname = \"a\"\nprompt = \"a\"", "two"),
            ("scenario = 3", "scenarios"),
        ] {
            let (_, _, message) = place(text);
            assert!(message.contains(part), "{text}: {message}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&"#".repeat(MAX_BYTES + 1)).is_err());
    }
}
