//! Tokenizers from the metadata of GGUF files.
//!
//! They give the same tokens as the `tokenizer.json` of the same model. With scores, they equal a
//! slow SentencePiece. Files that contradict themselves end in an error that names the key.

use std::collections::HashMap;

use ffwd::model::embedded::{END_OF_TURN, TARGET_GGUF, TOKENIZER_JSON};
use ffwd::{Constraint, Engine, ErrorKind, Mode, Prompt, Request, TokenId, Vocabulary};
use ffwd_testkit::data;
use ffwd_testkit::random::Random;
use serde_json::{Value, json};

use crate::common::metadata::{Meta, Metadata, file, of_json, text, texts, value};

/// What tokenizers stumble over, and pieces of usual texts.
#[derive(serde::Deserialize)]
struct SampleTexts {
    awkward: Vec<String>,
    snippets: Vec<String>,
}

impl SampleTexts {
    fn read() -> SampleTexts {
        serde_json::from_str(include_str!("../data/gguf/texts.json")).unwrap()
    }

    /// A text put together from the awkward ones, their characters and any characters.
    fn random(&self, random: &mut Random) -> String {
        let mut out = String::new();
        for _ in 0..1 + random.below(12) {
            match random.below(4) {
                0 => out.push_str(random.pick::<String>(&self.awkward)),
                1 => out.extend(random.pick::<String>(&self.awkward).chars().nth(random.below(20))),
                2 => out.extend(char::from_u32(random.below(0x3000) as u32)),
                _ => out.push_str(random.pick::<String>(&self.snippets)),
            }
        }
        out
    }
}

/// Both give the same tokens for all texts, and mean the same by them.
fn same(name: &str, got: &Vocabulary, want: &Vocabulary, rounds: usize) {
    assert_eq!(got.len(), want.len(), "{name}");
    assert_eq!(got.eos(), want.eos(), "{name}");
    for id in 0..want.len() as TokenId {
        assert_eq!(got.token_bytes(id), want.token_bytes(id), "{name}: token {id}");
        assert_eq!(got.is_special(id), want.is_special(id), "{name}: token {id}");
        assert_eq!(got.token_text(id), want.token_text(id), "{name}: token {id}");
    }
    let (texts, mut random) = (SampleTexts::read(), Random::new(7));
    let more = (0..rounds).map(|_| texts.random(&mut random));
    for text in texts.awkward.iter().cloned().chain(more) {
        assert_eq!(got.encode(&text).unwrap(), want.encode(&text).unwrap(), "{name}: {text:?}");
        let (a, b) = (got.encode_template(&text).unwrap(), want.encode_template(&text).unwrap());
        assert_eq!(a, b, "{name}: {text:?} as a template");
    }
}

fn embedded_json() -> Value {
    serde_json::from_slice(TOKENIZER_JSON).unwrap()
}

fn of(metadata: &Metadata) -> ffwd::Result<Vocabulary> {
    ffwd::model::vocabulary_from_gguf_bytes(&file(metadata))
}

#[test]
fn byte_level_tokenizers_of_every_known_name() {
    let mut json = embedded_json();
    // A token that is looked for in texts, and no control token.
    json["added_tokens"].as_array_mut().unwrap().push(
        json!({"id": 4096, "content": "of the", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false}),
    );
    let own = json["pre_tokenizer"].clone();
    // Names, normalizer, pre-tokenizer (null for that of the embedded models) and `ignore_merges`, as the
    // tokenizer.json of these models have them.
    for line in include_str!("../data/gguf/pre_tokenizers.jsonl").lines() {
        let (names, normalizer, cut, ignore_merges): (Vec<String>, Value, Value, bool) =
            serde_json::from_str(line).unwrap();
        json["normalizer"] = normalizer;
        json["pre_tokenizer"] = if cut.is_null() { own.clone() } else { cut };
        json["model"]["ignore_merges"] = ignore_merges.into();
        let text = json.to_string();
        let want = Vocabulary::from_bytes(text.as_bytes()).unwrap().with_eos(vec![2]);
        for name in names {
            let mut metadata = of_json(&json, &name, 2);
            // Unused ids fill the logits up; they are no tokens and may be spelled alike.
            if let Meta::Texts(tokens) = value(&mut metadata, "tokens") {
                tokens.extend([b"[PAD]".to_vec(), b"[PAD]".to_vec()]);
            }
            if let Meta::Numbers(types) = value(&mut metadata, "token_type") {
                types.extend([5, 5]);
            }
            let got = of(&metadata).unwrap();
            same(&name, &got, &want, 2000);
            let marked = |v: &Vocabulary| v.clone().with_markers(&["<think>", "</think>"]).unwrap();
            assert!(!marked(&got).is_special(got.token_id("<think>").unwrap()));
            same(&name, &marked(&got), &marked(&want), 300);
        }
    }
}

#[test]
fn the_embedded_file_has_the_embedded_tokenizer() {
    let want = Vocabulary::from_bytes(TOKENIZER_JSON).unwrap().with_eos(vec![END_OF_TURN]);
    same("embedded", &ffwd::model::vocabulary_from_gguf_bytes(TARGET_GGUF).unwrap(), &want, 5000);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), TARGET_GGUF).unwrap();
    let read = Vocabulary::from_file(file.path()).unwrap();
    same("by the engine", &read, &want, 20);
    assert_eq!(read.bos(), ffwd::model::vocabulary_from_gguf(file.path()).unwrap().bos());
}

#[test]
fn the_tokenizer_of_llama_3() {
    let Some(dir) = data::bench_dir() else {
        eprintln!("skipped: no benchmark data (FFWD_BENCH_DIR)");
        return;
    };
    let path = dir.join("tokenizers/llama3/tokenizer.json");
    let bytes = std::fs::read(&path).unwrap();
    let want = Vocabulary::from_bytes(&bytes).unwrap().with_eos(vec![128_009]);
    let json = serde_json::from_slice(&bytes).unwrap();
    let got = of(&of_json(&json, "llama-bpe", 128_009)).unwrap();
    same("llama 3", &got, &want, 2000);
    let marked = |v: Vocabulary| v.with_markers(&["<|python_tag|>"]).unwrap();
    same("llama 3 with a marker", &marked(got), &marked(want), 500);
}

/// The words that the name `default` cuts have no `tokenizer.json` to compare with; here every word
/// is a token.
#[test]
fn the_default_cut() {
    let mut json = embedded_json();
    let mut words = vec!["ab", "\u{120}cd", "123", "45", "..", "$+", "\u{120}", "!", "..!", "12345"];
    words.push("\u{120}12345");
    let mut vocab = json!({});
    let alphabet = json["model"]["vocab"].as_object().unwrap().iter().filter(|(t, _)| t.chars().count() == 1);
    for (i, token) in alphabet
        .map(|(t, _)| t.as_str())
        .chain(words.iter().copied().filter(|w| w.chars().count() > 1))
        .enumerate()
    {
        vocab[token] = i.into();
    }
    json["model"]["vocab"] = vocab;
    json["added_tokens"] = json!([]);
    let merges = [
        "a b",
        "\u{120} c",
        "\u{120}c d",
        "1 2",
        "12 3",
        "4 5",
        "123 45",
        ". .",
        "$ +",
        ".. !",
        "\u{120} 12345",
    ];
    for merge in ["12", "\u{120}c"] {
        let n = json["model"]["vocab"].as_object().unwrap().len();
        json["model"]["vocab"][merge] = n.into();
    }
    json["model"]["merges"] = json!(merges);
    let vocabulary = of(&of_json(&json, "default", 0)).unwrap();
    let cut = |text: &str| -> Vec<String> {
        vocabulary.encode(text).unwrap().iter().map(|&t| vocabulary.token_text(t).unwrap()).collect()
    };
    // Punctuation by itself, then words with a blank before them, then numbers, of those three
    // digits at once.
    assert_eq!(cut("ab cd..!"), ["ab", "\u{120}cd", "..!"]);
    assert_eq!(cut("ab12345"), ["ab", "123", "45"]);
    assert_eq!(cut("ab 12345$+"), ["ab", "\u{120}", "123", "45", "$+"]);
}

/// SentencePiece as it is defined: join the best neighbours until there are none.
fn slow_sentence_piece(pieces: &HashMap<String, (TokenId, f32)>, bytes: TokenId, text: &str) -> Vec<TokenId> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut parts: Vec<String> =
        format!(" {text}").replace(' ', "\u{2581}").chars().map(String::from).collect();
    loop {
        let mut best: Option<(usize, f32)> = None;
        for i in 1..parts.len() {
            if let Some(&(_, score)) = pieces.get(&format!("{}{}", parts[i - 1], parts[i]))
                && best.is_none_or(|(_, s)| score > s)
            {
                best = Some((i, score));
            }
        }
        let Some((i, _)) = best else { break };
        let right = parts.remove(i);
        parts[i - 1] += &right;
    }
    let id = |part: &String| match pieces.get(part) {
        Some(&(id, _)) => vec![id],
        None => part.bytes().map(|b| bytes + TokenId::from(b)).collect(),
    };
    parts.iter().flat_map(id).collect()
}

/// Metadata of a SentencePiece model: `<unk>`, `<s>`, `</s>`, the bytes, then the pieces.
fn sentence_piece(pieces: &[(String, f32)]) -> Metadata {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    tokens.extend((0..=255u8).map(|b| format!("<0x{b:02X}>")));
    let mut types = vec![2, 3, 3];
    types.resize(259, 6);
    let mut scores = vec![0.0; 259];
    for (piece, score) in pieces {
        tokens.push(piece.clone());
        types.push(1);
        scores.push(*score);
    }
    let entries = [
        ("model", text("llama")),
        ("tokens", texts(&tokens)),
        ("token_type", Meta::Numbers(types)),
        ("scores", Meta::Floats(scores)),
        ("eos_token_id", Meta::Number(2)),
    ];
    entries.map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).into()
}

/// Pieces joined from pieces, as training makes them; scores fall with age or are in any order.
fn random_pieces(random: &mut Random, characters: &[&str], in_order: bool) -> Vec<(String, f32)> {
    let mut pieces: Vec<String> = characters.iter().map(|c| (*c).to_owned()).collect();
    for _ in 0..random.below(30) {
        let piece = format!("{}{}", random.pick(&pieces), random.pick(&pieces));
        // The control token is there already.
        if piece.chars().count() <= 9 && piece != "<s>" && !pieces.contains(&piece) {
            pieces.push(piece);
        }
    }
    let mut ranks: Vec<usize> = (0..pieces.len()).collect();
    if !in_order {
        for i in (1..ranks.len()).rev() {
            ranks.swap(i, random.below(i + 1));
        }
    }
    pieces.into_iter().zip(ranks).map(|(piece, rank)| (piece, -(rank as f32))).collect()
}

#[test]
fn scores_join_as_sentence_piece_does() {
    let mut random = Random::new(11);
    for round in 0..600 {
        let characters: &[&str] = match round % 3 {
            0 => &["a", "\u{2581}"],
            1 => &["a", "b", "\u{2581}"],
            _ => &["a", "b", "\u{e9}", "\u{2581}", "<", "s", ">"],
        };
        let pieces = random_pieces(&mut random, characters, round % 2 == 0);
        let vocabulary = of(&sentence_piece(&pieces)).unwrap();
        let numbered = pieces.iter().enumerate().map(|(i, (p, s))| (p.clone(), (259 + i as TokenId, *s)));
        let known: HashMap<_, _> = numbered.collect();
        for _ in 0..60 {
            let n = random.below(24);
            let letters = ["a", "a", "b", " ", "\u{e9}", "<s>", "\u{2581}", "\u{1f600}", "\n"];
            let most = if round % 3 == 0 { 4 } else { letters.len() };
            let text: String = (0..n).map(|_| letters[random.below(most)]).collect();
            let want = slow_sentence_piece(&known, 3, &text);
            assert_eq!(vocabulary.encode(&text).unwrap(), want, "{text:?} with {pieces:?}");
            let spelled: Vec<u8> = text.replace('\u{2581}', " ").into_bytes();
            let prefix: &[u8] = if text.is_empty() { b"" } else { b" " };
            assert_eq!(vocabulary.decode(&want), [prefix, &spelled].concat());
        }
    }
}

/// The tokenizers of Phi-3 drop white space after most control tokens; files of other models that
/// look the same keep it.
#[test]
fn control_tokens_of_phi_3_take_the_white_space_after_them() {
    let of_architecture = |name: &str| {
        let mut metadata = sentence_piece(&[("a".into(), -1.0), ("\u{2581}".into(), -2.0)]);
        if let Meta::Texts(tokens) = value(&mut metadata, "tokens") {
            tokens.extend(["<|user|>", "<|endoftext|>"].map(|t| t.as_bytes().to_vec()));
        }
        if let Meta::Numbers(types) = value(&mut metadata, "token_type") {
            types.extend([3, 3]);
        }
        if let Meta::Floats(scores) = value(&mut metadata, "scores") {
            scores.extend([0.0, 0.0]);
        }
        metadata.push(("general.architecture".into(), text(name)));
        let vocabulary = of(&metadata).unwrap();
        move |text: &str| vocabulary.encode_template(text).unwrap()
    };
    let (phi, other) = (of_architecture("phi3"), of_architecture("llama"));
    for token in ["<|user|>", "</s>"] {
        assert_eq!(phi(&format!("{token}\n \t a")), phi(&format!("{token}a")), "{token}");
        assert_ne!(other(&format!("{token}\n a")), other(&format!("{token}a")), "{token}");
    }
    for token in ["<|endoftext|>", "<s>"] {
        assert_eq!(phi(&format!("{token}\n a")), other(&format!("{token}\n a")), "{token}");
        assert_ne!(phi(&format!("{token}\n a")), phi(&format!("{token}a")), "{token}");
    }
}

#[test]
fn control_and_user_defined_pieces() {
    let list: Vec<(String, f32)> = ["\u{2581}", "a", "b", "\u{2581}a", "ab", "xyz"]
        .iter()
        .enumerate()
        .map(|(i, p)| ((*p).to_owned(), -(i as f32)))
        .collect();
    // No merge makes `xyz`, which has no characters that are pieces; a user defined it.
    let mut metadata = sentence_piece(&list);
    let Meta::Numbers(types) = value(&mut metadata, "token_type") else { unreachable!() };
    types[264] = 4;
    let vocabulary = of(&metadata).unwrap();
    assert_eq!(vocabulary.eos(), [2]);
    assert!(vocabulary.is_special(0) && vocabulary.is_special(1) && !vocabulary.is_special(264));
    assert_eq!(vocabulary.encode("abxyzb").unwrap(), [262, 261, 264, 259, 261]);
    assert_eq!(vocabulary.encode_template("<s>a").unwrap(), [1, 262]);
    assert_eq!(vocabulary.token_bytes(1), b"");
    assert!(!vocabulary.encode("<s>a").unwrap().contains(&1), "a control token in a text is text");
    // Without the space in front.
    metadata.push(("tokenizer.ggml.add_space_prefix".into(), Meta::Flag(false)));
    let vocabulary = of(&metadata).unwrap();
    assert_eq!(vocabulary.encode("abxyzb").unwrap(), [263, 264, 261]);
}

/// A small one of each kind.
fn small() -> [Metadata; 2] {
    let bytes: Vec<String> = embedded_json()["model"]["vocab"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|t| t.chars().count() == 1)
        .cloned()
        .collect();
    let mut tokens = bytes;
    tokens.extend(["ab", "abc", "<|end|>"].map(String::from));
    let mut types = vec![1; tokens.len() - 1];
    types.push(3);
    let end = tokens.len() as u32 - 1;
    let byte_level = [
        ("model", text("gpt2")),
        ("pre", text("gpt-2")),
        ("tokens", texts(&tokens)),
        ("token_type", Meta::Numbers(types)),
        ("merges", texts(&["a b", "ab c"])),
        ("eos_token_id", Meta::Number(end)),
    ];
    let pieces = [("\u{2581}", 0.0), ("a", -1.0), ("b", -2.0), ("ab", -3.0), ("\u{2581}ab", -4.0)];
    let pieces: Vec<(String, f32)> = pieces.iter().map(|(p, s)| ((*p).to_owned(), *s)).collect();
    [byte_level.map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).into(), sentence_piece(&pieces)]
}

/// The value after a change: another one, a list without its first entry, or one with another entry.
/// Texts are in Latin-1, so that they can be wrong UTF-8.
fn changed(value: &Meta, change: &Value) -> Meta {
    let bytes = |text: &Value| -> Vec<u8> { text.as_str().unwrap().chars().map(|c| c as u8).collect() };
    let count = |number: &Value| number.as_u64().unwrap() as usize;
    let (name, with) = change.as_object().unwrap().iter().next().unwrap();
    match (&**name, value) {
        ("text", _) => Meta::Text(bytes(with)),
        ("texts", _) => Meta::Texts(with.as_array().unwrap().iter().map(bytes).collect()),
        ("numbers", _) => Meta::Numbers(vec![with[0].as_i64().unwrap() as i32; count(&with[1])]),
        // Null is not a number.
        ("floats", _) => Meta::Floats(vec![with[0].as_f64().unwrap_or(f64::NAN) as f32; count(&with[1])]),
        ("entry", Meta::Texts(list)) => {
            let mut list = list.clone();
            list[count(&with[0])] = bytes(&with[1]);
            Meta::Texts(list)
        }
        ("shorter", Meta::Texts(list)) => Meta::Texts(list[1..].to_vec()),
        ("shorter", Meta::Numbers(list)) => Meta::Numbers(list[1..].to_vec()),
        ("shorter", Meta::Floats(list)) => Meta::Floats(list[1..].to_vec()),
        _ => panic!("{change}"),
    }
}

#[test]
fn what_is_wrong_is_named() {
    let [byte_level, spm] = small();
    for line in include_str!("../data/gguf/refused_tokenizers.jsonl").lines() {
        let (from, key, change, kind, said): (String, String, Value, String, String) =
            serde_json::from_str(line).unwrap();
        let mut metadata = if from == "byte_level" { byte_level.clone() } else { spm.clone() };
        assert!(of(&metadata).is_ok());
        let value = value(&mut metadata, &key);
        *value = changed(value, &change);
        let error = of(&metadata).unwrap_err();
        let found = format!("{:?}", error.kind());
        assert!(found == kind && error.to_string().contains(&said), "{line}: {error:?}");
    }
    for (from, keys) in [(&byte_level, &["model", "pre", "tokens", "merges"][..]), (&spm, &["scores"])] {
        for key in keys {
            let name = format!("tokenizer.ggml.{key}");
            let without: Metadata = from.iter().filter(|(k, _)| *k != name).cloned().collect();
            assert!(of(&without).unwrap_err().to_string().contains(&name), "{key}");
        }
    }
    // More than is read, with the bytes to show for it.
    let mut metadata = byte_level.clone();
    *value(&mut metadata, "tokens") = Meta::Texts(vec![Vec::new(); (1 << 20) + 1]);
    let error = of(&metadata).unwrap_err();
    assert!(error.kind() == ErrorKind::TooComplex && error.to_string().contains("tokens"), "{error:?}");
    let mut metadata = byte_level.clone();
    *value(&mut metadata, "merges") = Meta::Texts(vec![vec![b'a'; 1 << 20]; 65]);
    let error = of(&metadata).unwrap_err();
    assert!(error.kind() == ErrorKind::TooComplex && error.to_string().contains("merges"), "{error:?}");
    // Claimed and not there.
    for n in [1 << 19, 1 << 40, u64::MAX] {
        for kind in [0, 5, 8, 9, 12, 77] {
            let mut metadata = byte_level.clone();
            *value(&mut metadata, "merges") = Meta::Claimed(kind, n);
            assert!(of(&metadata).is_err());
        }
    }
}

#[test]
fn damaged_metadata_are_errors_or_tokenizers() {
    let mut random = Random::new(3);
    let mut outcomes = [0, 0];
    for metadata in small() {
        let whole = file(&metadata);
        for _ in 0..3000 {
            let mut damaged = whole.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(damaged.len());
                damaged[at] = match random.below(3) {
                    0 => random.next() as u8,
                    1 => damaged[at] ^ (1 << random.below(8)),
                    _ => *random.pick(&[0, 1, 255, b' ']),
                };
            }
            if random.chance(10) {
                damaged.truncate(random.below(damaged.len()));
            }
            match ffwd::model::vocabulary_from_gguf_bytes(&damaged) {
                Ok(vocabulary) => {
                    outcomes[0] += 1;
                    vocabulary.encode("abc ab\u{e9} <|end|>").unwrap();
                }
                Err(error) => {
                    outcomes[1] += 1;
                    assert!(!error.message().is_empty());
                }
            }
        }
    }
    assert!(outcomes.iter().all(|&n| n > 100), "{outcomes:?}");
}

/// One file is a whole model; a `tokenizer.json` next to it has precedence.
#[test]
fn what_stands_in_front_of_a_prompt() {
    let [byte_level, pieces] = small();
    let with = |metadata: &Metadata, more: &[(&str, Meta)]| {
        let mut all = metadata.clone();
        for (key, value) in more {
            all.retain(|(k, _)| k != &format!("tokenizer.ggml.{key}"));
            all.push((format!("tokenizer.ggml.{key}"), value.clone()));
        }
        of(&all).unwrap().bos().to_vec()
    };
    let (id, yes, no) = (("bos_token_id", Meta::Number(3)), Meta::Flag(true), Meta::Flag(false));
    // A `tokenizer.json` says it in its post-processor, which may put something behind a text as
    // well.
    let mut json = embedded_json();
    let named = |id: u32| Vocabulary::from_bytes(TOKENIZER_JSON).unwrap().token_text(id).unwrap();
    let (front, behind, plain) = (named(1), named(2), named(300));
    let special = |name: &str, id: u32| json!({ "id": name, "ids": [id], "tokens": [name] });
    for (first, want) in [(&front, vec![1]), (&plain, vec![])] {
        let token = |name: &str| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
        let single = json!([token(first), { "Sequence": { "id": "A", "type_id": 0 } }, token(&behind)]);
        json["post_processor"] = json!({
            "type": "TemplateProcessing", "single": single, "pair": single,
            "special_tokens": { &front: special(&front, 1), &behind: special(&behind, 2), &plain: special(&plain, 300) },
        });
        let vocab = Vocabulary::from_bytes(json.to_string().as_bytes()).unwrap();
        assert_eq!(vocab.bos(), want, "{first}");
    }
    assert_eq!(Vocabulary::from_bytes(TOKENIZER_JSON).unwrap().bos(), [0; 0]);
    // What files mean that do not say it: SentencePiece and Llama 3 have one, others have none.
    assert_eq!(with(&pieces, &[]), [1]);
    assert_eq!(with(&pieces, std::slice::from_ref(&id)), [3]);
    assert_eq!(with(&byte_level, std::slice::from_ref(&id)), [0; 0]);
    assert_eq!(with(&byte_level, &[id.clone(), ("pre", text("llama-bpe"))]), [3]);
    // And those that do.
    for (metadata, other) in [(&byte_level, vec![]), (&pieces, vec![1])] {
        assert_eq!(with(metadata, &[id.clone(), ("add_bos_token", yes.clone())]), [3]);
        assert_eq!(with(metadata, &[id.clone(), ("add_bos_token", no.clone())]), [0; 0]);
        assert_eq!(
            with(metadata, &[("bos_token_id", Meta::Number(1 << 20)), ("add_bos_token", yes.clone())]),
            other
        );
    }
}

#[test]
fn a_plain_prompt_begins_with_it_and_others_do_not() {
    let engine = |bos| {
        let vocab = ffwd::model::embedded::vocabulary().unwrap().with_bos(bos);
        Engine::from_parts(ffwd::model::Model::embedded_target(&Default::default()).unwrap(), None, vocab)
            .unwrap()
    };
    let (plain, with) = (engine(vec![]), engine(vec![1]));
    let tokens = |engine: &Engine, prompt: Prompt| {
        engine.generate(&Request::new(prompt).max_tokens(1)).unwrap().stats.prompt_tokens
    };
    let begin = with.vocabulary().token_text(1).unwrap();
    let text = || Prompt::text("One two three.");
    let count = tokens(&plain, text());
    assert_eq!(tokens(&with, text()), count + 1);
    assert_eq!(tokens(&with, text().without_bos()), count);
    // A template that writes it itself gets no second one; a text that spells it is only a text.
    let template = |begin: &str| Prompt::default().with_template(begin).with_text("One two three.");
    assert_eq!(tokens(&with, template(&begin)), count + 1);
    assert_eq!(tokens(&with, template("")), count + 1);
    let spelled = || Prompt::text(format!("{begin}One two three."));
    assert_eq!(tokens(&with, spelled()), tokens(&plain, spelled()) + 1);
    let chat = [ffwd::chat::Message::user("One two three.")];
    let prompt = |engine: &Engine| engine.chat_prompt(&chat, &Default::default()).unwrap();
    assert_eq!(tokens(&with, prompt(&with)), tokens(&plain, prompt(&plain)));
    // An empty prompt is refused as before.
    assert!(with.generate(&Request::new(Prompt::default())).is_err());
}

#[test]
fn marks_of_turns_are_tokens_whatever_their_type() {
    let key = b"tokenizer.ggml.token_type";
    let at = TARGET_GGUF.windows(key.len()).position(|w| w == key).unwrap() + key.len();
    // Type and length of the list, then a number of four bytes for each token.
    let first = at + 4 + 4 + 8;
    let whole = ffwd::model::vocabulary_from_gguf_bytes(TARGET_GGUF).unwrap();
    let marks: Vec<TokenId> = ["<|im_start|>", "<|im_end|>"].map(|mark| whole.token_id(mark).unwrap()).into();
    let mut bytes = TARGET_GGUF.to_vec();
    for id in &marks {
        let kind = first + 4 * *id as usize;
        assert_eq!(bytes[kind..kind + 4], 3_u32.to_le_bytes(), "a control token");
        bytes[kind] = 1;
    }
    same("marks", &ffwd::model::vocabulary_from_gguf_bytes(&bytes).unwrap(), &whole, 20);
    // A known end that no template has, and the marks as unused or user-defined tokens.
    bytes[first + 4 * whole.token_id("<|endoftext|>").unwrap() as usize] = 1;
    for kind in [4, 5] {
        marks.iter().for_each(|id| bytes[first + 4 * *id as usize] = kind);
        same("all marks", &ffwd::model::vocabulary_from_gguf_bytes(&bytes).unwrap(), &whole, 20);
    }
}

#[test]
fn a_gguf_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, TARGET_GGUF).unwrap();
    let request = || {
        let prompt = Prompt::text("The date is ");
        Request::new(prompt)
            .constraint(Constraint::regex("[0-9]{4}-[0-9]{2}-[0-9]{2}").unwrap())
            .mode(Mode::Off)
    };
    let want = Engine::embedded().unwrap().generate(&request()).unwrap();
    for place in [path.as_path(), dir.path()] {
        let engine = Engine::builder().model(place).build().unwrap();
        let got = engine.generate(&request()).unwrap();
        assert_eq!((got.text, got.tokens), (want.text.clone(), want.tokens.clone()));
        let end_of_document = engine.vocabulary().token_id("<|endoftext|>").unwrap();
        assert_eq!(engine.vocabulary().eos(), [END_OF_TURN, end_of_document]);
    }
    std::fs::write(dir.path().join("tokenizer.json"), b"{}").unwrap();
    let error = Engine::builder().model(&path).build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Tokenizer, "the file beside it is read: {error}");
}
