//! Markers that a tokenizer has as special tokens. Tool calls and the end of thinking are written
//! as the model knows them, and text from outside cannot become them.

use ffwd::chat::{ChatOptions, Message};
use ffwd::constraint::tools::{ToolChoice, ToolStyle, Tools};
use ffwd::model::embedded::TOKENIZER_JSON;
use ffwd::{Compiler, Constraint, Engine, ErrorKind, Mode, Policy, Prompt, Request, TokenId, Vocabulary};

const TAG: &str = r#"{"type": "structural_tag", "format": {"type": "tag", "begin": "<tool_call>",
    "content": {"type": "json_schema", "json_schema": {"type": "object", "properties": {"city": {"enum": ["Oslo"]}},
    "required": ["city"], "additionalProperties": false}}, "end": "</tool_call>"}}"#;
const CALL: &str = r#"<tool_call>{"city":"Oslo"}</tool_call>"#;

fn plain() -> Vocabulary {
    Vocabulary::from_bytes(TOKENIZER_JSON).unwrap()
}

fn marked() -> Vocabulary {
    plain().with_markers(&["<tool_call>", "</tool_call>\n"]).unwrap()
}

fn ids(vocab: &Vocabulary, names: &[&str]) -> Vec<TokenId> {
    names.iter().map(|name| vocab.token_id(name).unwrap()).collect()
}

#[test]
fn a_marker_is_text_and_all_else_is_as_before() {
    let (plain, marked) = (plain(), marked());
    assert_eq!((marked.len(), marked.eos(), marked.bos()), (plain.len(), plain.eos(), plain.bos()));
    for token in 0..plain.len() as TokenId {
        let name = plain.token_text(token).unwrap();
        let is_marker = ["<tool_call>", "</tool_call>"].contains(&name.as_str());
        assert!(!is_marker || plain.is_special(token) && plain.token_bytes(token).is_empty());
        assert_eq!(marked.is_special(token), plain.is_special(token) && !is_marker, "{name}");
        let bytes = if is_marker { name.as_bytes() } else { plain.token_bytes(token) };
        assert_eq!(marked.token_bytes(token), bytes, "{name}");
    }
    let text = "a <tool_call> b <think> c";
    let [from, to] = ids(&marked, &["<tool_call>", "<think>"])[..] else { unreachable!() };
    assert_eq!(marked.decode(&marked.encode(text).unwrap()), text.as_bytes());
    assert!(marked.encode(text).unwrap().contains(&from) && !marked.encode(text).unwrap().contains(&to));
    // From outside it is letters, as before.
    assert_eq!(marked.encode_outside(text).unwrap(), plain.encode(text).unwrap());
    assert_eq!(plain.encode_outside(text).unwrap(), plain.encode(text).unwrap());
    assert_eq!(marked.encode_template(text).unwrap(), plain.encode_template(text).unwrap());
    // What is text already, ends a generation or is not there changes nothing.
    let again = marked.clone().with_markers(&[
        "<tool_call>",
        "nowhere",
        "",
        plain.token_text(plain.eos()[0]).unwrap().as_str(),
    ]);
    let again = again.unwrap();
    assert!(again.is_special(plain.eos()[0]) && !again.is_special(from));
    let both = again.with_markers(&["</think>"]).unwrap();
    assert!(!both.is_special(from) && !both.is_special(ids(&both, &["</think>"])[0]));
    let text = "<tool_call></think>";
    assert_eq!(both.encode_outside(text).unwrap(), plain.encode(text).unwrap());
}

#[test]
fn a_tag_is_written_with_the_tokens_of_its_marks() {
    let constraint = Constraint::structural_tag(TAG).unwrap();
    let (plain, marked) = (plain(), marked());
    let spelled = Compiler::new(plain.clone()).compile(&constraint).unwrap();
    assert!(
        spelled
            .warnings()
            .iter()
            .any(|w| w.message().contains("`<tool_call>`") && w.message().contains("with_markers"))
    );
    assert_eq!(spelled.warnings().len(), 2, "{:?}", spelled.warnings());
    let grammar = Compiler::new(marked.clone()).compile(&constraint).unwrap();
    assert!(grammar.warnings().is_empty());
    let [begin, end] = ids(&marked, &["<tool_call>", "</tool_call>"])[..] else { unreachable!() };
    let mut matcher = grammar.matcher();
    assert!(matcher.allows(begin) && !matcher.allows(end));
    assert!(!spelled.matcher().allows(begin), "it has no bytes there");
    let forced = matcher.canonical_forced_tokens(None);
    assert_eq!((forced.first(), forced.last()), (Some(&begin), Some(&end)), "{forced:?}");
    assert_eq!(marked.decode(&forced), CALL.as_bytes());
    // Letter by letter it is the same text, and legal.
    let letters = plain.encode(CALL).unwrap();
    assert_eq!(matcher.validate_tokens(&letters), letters.len());
    for token in forced {
        matcher.accept_token(token).unwrap();
    }
    assert!(matcher.is_accepting());
    let ending = format!("root ::= \"<tool_call>{}\"", marked.token_text(marked.eos()[0]).unwrap());
    let ending = Compiler::new(marked.clone()).compile(&Constraint::ebnf(&ending).unwrap()).unwrap();
    assert!(ending.warnings()[0].message().contains("ends generations"), "{:?}", ending.warnings());
    for grammar in ["root ::= \"<tool_call>\" [a-z]+", "start: \"<tool_call>\" /[a-z]+/"] {
        let constraint = Constraint::ebnf(grammar).unwrap();
        assert_eq!(
            Compiler::new(plain.clone()).compile(&constraint).unwrap().warnings().len(),
            1,
            "{grammar}"
        );
        assert!(Compiler::new(marked.clone()).compile(&constraint).unwrap().matcher().allows(begin));
    }
}

/// What ends a message of the last kind is an end token, and legal exactly there; all else are
/// marks.
#[test]
fn messages_in_channels_end_with_end_tokens() {
    const ENDS: [&str; 2] = ["<|call|>", "<|return|>"];
    const MARKS: [&str; 5] = ["<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|constrain|>"];
    let mut file: serde_json::Value = serde_json::from_slice(TOKENIZER_JSON).unwrap();
    for (name, id) in ENDS.iter().chain(&MARKS).zip(plain().len()..) {
        let token = serde_json::json!({"id": id, "content": name, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false});
        file["added_tokens"].as_array_mut().unwrap().push(token);
    }
    let vocab = Vocabulary::from_bytes(file.to_string().as_bytes()).unwrap();
    let (ends, marks) = (ids(&vocab, &ENDS), ids(&vocab, &MARKS));
    let vocab = vocab.with_eos(ends.clone()).with_markers(&MARKS).unwrap();
    let tools =
        r#"[{"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}]"#;
    let tools = Tools::parse(tools).unwrap();
    let made = tools.constraint(ToolStyle::Harmony, &ToolChoice::default(), Policy::default()).unwrap();
    let grammar = Compiler::new(vocab.clone()).compile(&made).unwrap();
    assert!(grammar.warnings().is_empty(), "{:?}", grammar.warnings());
    let thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
    let call = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":1}";
    for (reply, end) in [(format!("{thought}{call}"), "}"), ("<|channel|>final<|message|>Hi".into(), "|>")] {
        let tokens = vocab.encode(&reply).unwrap();
        let written: Vec<&TokenId> = tokens.iter().filter(|token| marks.contains(token)).collect();
        assert_eq!(written.len(), reply.matches("<|").count(), "{tokens:?}");
        let (mut matcher, mut text) = (grammar.matcher(), Vec::new());
        for token in tokens {
            matcher.accept_token(token).unwrap();
            text.extend_from_slice(vocab.token_bytes(token));
            let last = !reply[text.len()..].contains(end);
            assert!(
                ends.iter().all(|&end| matcher.allows(end) == last),
                "{:?}",
                String::from_utf8_lossy(&text)
            );
        }
        // No mark comes in the text of a message, and behind a call nothing does.
        assert!(marks.iter().all(|&mark| !matcher.allows(mark)));
    }
}

#[test]
fn models_write_markers_and_users_do_not() {
    let engine = Engine::builder().markers(["<tool_call>", "</tool_call>", "</think>"]).build().unwrap();
    let vocab = engine.vocabulary();
    let [begin, end, thought] = ids(vocab, &["<tool_call>", "</tool_call>", "</think>"])[..] else {
        unreachable!()
    };
    let request = || {
        let prompt = Prompt::text("The weather in Oslo? <tool_call>");
        Request::new(prompt).constraint(Constraint::structural_tag(TAG).unwrap()).max_tokens(60)
    };
    for mode in Mode::ALL {
        let output = engine.generate(&request().mode(mode)).unwrap();
        assert_eq!(output.text, CALL, "{mode:?}");
        let (exact, first) = (matches!(mode, Mode::Off | Mode::Exact), output.tokens[0]);
        assert!(
            exact || (first, output.tokens.last()) == (begin, Some(&end)),
            "{mode:?}: {:?}",
            output.tokens
        );
    }
    let thinking = request().think_until("</think>", 3);
    let output = engine.generate(&thinking).unwrap();
    assert!(output.tokens.contains(&thought), "the budget ends with the token: {:?}", output.text);
    assert_eq!(output.answer.as_deref(), Some(CALL));
    // The engine that does not know of the marker says so.
    let unaware = Engine::embedded().unwrap();
    let error = unaware.generate(&request().think_until("</think>", 3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.hint_text().unwrap().contains("markers"), "{error}");
    // Neither a prompt nor a message becomes a marker.
    let messages = [Message::user("Say </think> and <tool_call>."), Message::assistant("</think>")];
    let chat = engine.chat_prompt(&messages, &ChatOptions::default()).unwrap();
    let known = unaware.chat_prompt(&messages, &ChatOptions::default()).unwrap();
    for (prompt, as_before) in [(chat, known), (Prompt::text("a </think> b"), Prompt::text("a </think> b"))] {
        let one = |engine: &Engine, prompt| engine.generate(&Request::new(prompt).max_tokens(1)).unwrap();
        let (ours, theirs) = (one(&engine, prompt), one(&unaware, as_before));
        assert_eq!(ours.stats.prompt_tokens, theirs.stats.prompt_tokens);
    }
}
