//! Iterators of texts and of records, partial records, data of records that were cut, verbatim
//! strings and their spans.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use ffwd::decode::{Event, HandleEvent, Scheduler};
use ffwd::extract::{self, Extractor, PartialRecord, Truncated};
use ffwd::{Engine, ErrorKind, SchedulerOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::common::exact::engine;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Order {
    #[schemars(length(max = 12))]
    name: String,
    count: u8,
    #[schemars(length(max = 2))]
    tags: Vec<Kind>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Lamp,
    Chair,
}

fn text(i: usize) -> String {
    // Some texts fail: they are blank.
    if i % 7 == 3 { " ".into() } else { format!("Ann {i} orders {} lamps and a chair.", i % 10) }
}

#[test]
fn records_come_in_the_order_of_the_texts_and_memory_is_bounded() {
    let engine = Arc::new(engine());
    for batch in [1, 3] {
        let taken = Cell::new(0);
        let texts = (0..24).map(|i| {
            taken.set(taken.get() + 1);
            text(i)
        });
        let mut records = engine.extract_many::<Order, _>(texts, batch).unwrap();
        assert_eq!(taken.get(), 0, "nothing is taken before it is needed");
        for i in 0..24 {
            match (records.next().unwrap(), engine.extract::<Order>(text(i))) {
                (Ok(record), Ok(alone)) => assert_eq!(record, alone),
                (Err(error), Err(alone)) => assert_eq!(error.to_string(), alone.to_string()),
                (record, alone) => panic!("{record:?} {alone:?}"),
            }
            assert!(taken.get() <= i + 1 + 2 * batch, "{} after {i}", taken.get());
        }
        assert!(records.next().is_none());
    }
    // Options of the requests hold, and a dropped iterator cancels what is in work.
    let extractor = Extractor::new(&engine, r#"{"type": "string", "minLength": 400}"#).unwrap();
    let endless = std::iter::repeat("An endless text.");
    let mut records =
        extractor.extract_many(&engine, endless, 2).unwrap().with(|request| request.max_tokens(9));
    let error = records.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    drop(records);
    assert!(extractor.extract_many(&engine, ["a"], 0).is_err());
}

#[test]
fn partial_records_grow_into_the_record() {
    let engine = Arc::new(engine());
    let mut last = PartialRecord::default();
    let mut updates = 0;
    let record: Order = engine
        .extract_streaming(text(1), &mut |partial| {
            for pointer in last.done() {
                assert_eq!(last.value().pointer(pointer), partial.value().pointer(pointer), "{pointer}");
                assert!(partial.is_done(pointer));
            }
            last = partial.clone();
            updates += 1;
        })
        .unwrap();
    assert!(updates > 6, "{updates}");
    assert_eq!(serde_json::from_value::<Order>(last.value().clone()).unwrap(), record);
    assert!(last.is_done("") && last.is_done("/name"));

    // A scheduler sends the same fields.
    let schema = schemars::schema_for!(Order).to_value().to_string();
    let request = Extractor::new(&engine, schema).unwrap().request(text(1)).unwrap().events(true);
    let scheduler = Scheduler::new(engine.clone(), SchedulerOptions::default()).unwrap();
    let mut handle = scheduler.submit(request).unwrap();
    let mut partial = PartialRecord::default();
    while let Some(event) = handle.next_event() {
        if let HandleEvent::Field(field) = event {
            partial.update(&field);
        }
    }
    assert_eq!(partial, last);
}

/// In each prefix of the text, the values that are done are those of the whole, and each container
/// has its kind.
#[test]
fn partial_records_agree_with_the_whole_at_every_byte() {
    let text = r#"{"0":[[],[1,{"1":"a\n"}],"x"],"o":{"0":{"0":null},"~/":[true,""]},"n":-1.5}"#;
    let whole: Value = serde_json::from_str(text).unwrap();
    let mut stream = ffwd::decode::JsonStream::new();
    let mut partial = PartialRecord::default();
    for byte in text.bytes() {
        for field in stream.feed(&[byte]) {
            partial.update(&field);
        }
        let mut todo = vec![(partial.value(), &whole)];
        while let Some((part, whole)) = todo.pop() {
            match (part, whole) {
                (Value::Null, _) => {}
                (Value::Object(part), Value::Object(whole)) => {
                    todo.extend(part.iter().map(|(name, value)| (value, &whole[name])));
                }
                (Value::Array(part), Value::Array(whole)) => todo.extend(part.iter().zip(whole)),
                (Value::String(part), Value::String(whole)) => assert!(whole.starts_with(part.as_str())),
                (part, whole) => assert_eq!(part, whole),
            }
        }
    }
    assert_eq!(partial.value(), &whole);
    assert_eq!(partial.done().count(), 15);
}

#[test]
fn records_that_are_cut_say_where() {
    let engine = engine();
    let extractor = Extractor::new(&engine, schemars::schema_for!(Order).to_value().to_string()).unwrap();
    let whole = engine.generate(&extractor.request(text(1)).unwrap()).unwrap();
    let mut paths = BTreeMap::new();
    for tokens in 1..whole.tokens.len() {
        let output = engine.generate(&extractor.request(text(1)).unwrap().max_tokens(tokens)).unwrap();
        let so_far = output.text.clone();
        let error = extract::finished(output).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incomplete);
        let cut = Truncated::of(&error).unwrap();
        assert!(so_far.ends_with(&cut.partial), "{cut:?} of {so_far}");
        *paths.entry(cut.path).or_insert(0) += 1;
    }
    assert!(paths.contains_key("/name") && paths.contains_key(""), "{paths:?}");
    let other = engine.extract_json("{\"type\": 3}", "text").unwrap_err();
    assert_eq!(Truncated::of(&other), None);
}

const SOURCES: [&str; 5] = [
    "Zoë Öz\r\nfrom 東京都 orders 12 lamps, \"blue\" and \\ green.",
    "Cafe\u{301} \u{1f469}\u{200d}\u{1f52c} wrote: the total is 1,840.50 EUR, or 12.5. Café!",
    "to be or not to be, that is 東京 or 東京",
    "a\u{0}b\u{1f600}\u{1f600} 42",
    "\u{feff}Lu\u{308}men \u{1f600}\r\n12.5 EUR\u{feff} or\r\n\t7",
];
const FREE: &str = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 9},
    "note": {"type": ["string", "null"], "minLength": 3, "maxLength": 12}, "count": {"type": "number"},
    "list": {"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 1, "maxItems": 3},
    "kind": {"enum": ["to be", "or"]}}, "required": ["name", "note", "count", "list", "kind"]}"#;

fn check_spans(
    engine: &Engine,
    extractor: &Extractor,
    source: &str,
    seed: u64,
    thinks: bool,
) -> (usize, usize) {
    let mut request = extractor.request(source).unwrap().temperature(1.2).seed(seed).max_tokens(200);
    if thinks {
        request = request.think_until("\n\n", 7); // the record is what stands behind the thoughts
    }
    let output = engine.generate(&request).unwrap();
    let Ok(extraction) = extract::finished(output) else { return (0, 0) };
    let spans = extraction.spans(source);
    let mut strings = 0;
    for value in &spans {
        let found = extraction.record.pointer(&value.pointer).unwrap();
        for span in &value.occurrences {
            let copied = &source[span.bytes.clone()];
            match found {
                Value::String(text) => assert_eq!(text, copied),
                number => assert_eq!(number.as_f64(), copied.parse().ok()),
            }
            assert_eq!(source[..span.bytes.start].chars().count(), span.chars.start);
            assert_eq!(copied.chars().count(), span.chars.len());
        }
        if value.verbatim {
            let text = found.as_str().unwrap();
            // Nothing is copied from the byte order mark.
            let begin = if source.starts_with('\u{feff}') { 3 } else { 0 };
            let all = (begin..source.len())
                .filter(|&at| source.is_char_boundary(at) && source[at..].starts_with(text));
            assert_eq!(all.count(), value.occurrences.len(), "{value:?}");
            strings += 1;
        }
    }
    // Each free string was copied, so each has spans.
    let own = ["/name", "/note", "/list/0", "/list/1", "/list/2"].map(|p| extraction.record.pointer(p));
    let free = own.iter().flatten().filter(|value| value.is_string()).count();
    (strings, free)
}

#[test]
fn all_free_strings_are_copied_with_verbatim_and_their_spans_are_exact() {
    let engine = engine();
    let verbatim = Extractor::builder(&engine).verbatim(true).build(FREE).unwrap();
    let plain = Extractor::new(&engine, FREE).unwrap();
    assert!(verbatim.shared_constraint().is_none() && plain.shared_constraint().is_some());
    assert_eq!(verbatim.prompt("x").unwrap().to_text(), plain.prompt("x").unwrap().to_text());
    let mut all = (0, 0);
    for source in SOURCES {
        for seed in 0..12 {
            let (strings, free) = check_spans(&engine, &verbatim, source, seed, seed.is_multiple_of(2));
            assert_eq!(strings, free);
            all = (all.0 + strings, all.1 + 1);
            assert_eq!(check_spans(&engine, &plain, source, seed, false).0, 0);
        }
    }
    assert!(all.0 > 60, "{all:?}");
    // Without streaming, an event is as good as any.
    let request = verbatim.request(SOURCES[0]).unwrap();
    let mut fields = 0;
    engine
        .generate_events(&request, &mut |event| fields += usize::from(matches!(event, Event::Field(_))))
        .unwrap();
    assert!(fields > 0);
}
