//! Adapters by the options of the program.

use std::path::Path;

use ffwd_testkit::adapter_file;
use ffwd_testkit::gguf_file::{self, MetaValue, Tensor};

use crate::program::{Folder, ffwd, texts};

#[test]
fn an_adapter_changes_the_output_and_its_scale_counts() {
    let folder = Folder::new();
    adapter_file::write(&folder.0.path().join("a"), 0.3);
    let path = folder.path("a");
    let run = |adapter: &str| {
        let args = ["generate", "Write: ", "--regex", "[a-z]{30}", "--adapter", adapter];
        texts(&ffwd(if adapter.is_empty() { &args[..4] } else { &args }))
    };
    let (plain, adapted) = (run("").0, run(&path).0);
    assert_eq!((plain.trim_end().len(), adapted.trim_end().len()), (30, 30), "{plain:?} {adapted:?}");
    assert_ne!(plain, adapted);
    assert_eq!(run(&format!("{path}:0")).0, plain);
    assert_eq!(run(&format!("{path}:1.0")).0, adapted);
    let (out, err) = run(&format!("{path}:nan"));
    assert!(out.is_empty() && err.contains("scale"), "{err}");
}

#[test]
fn a_resumed_run_knows_the_adapter_by_its_content_and_scale() {
    let folder = Folder::new();
    for i in 0..3 {
        folder.write(&format!("in/{i}.txt"), &format!("The text {i}"));
    }
    let (out, adapter) = (folder.path("out.jsonl"), folder.path("a"));
    let run = |adapter: Option<&str>, more: &str| {
        let mut args = vec!["-o", &out, more];
        args.extend(adapter.into_iter().flat_map(|adapter| ["--adapter", adapter]));
        let (code, _, err) = folder.extract("in", &args);
        (code, err)
    };
    let is_made = |adapter: Option<&str>, more: &str| {
        let (code, err) = run(adapter, more);
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("were done"), "{err}");
        assert!(run(adapter, "--resume").1.contains("(3 were done)"));
    };
    let differs = |adapter: Option<&str>, how: &str| {
        let (code, err) = run(adapter, "--resume");
        assert!(code == 2 && err.contains(how), "{code} {err}");
        is_made(adapter, "--restart");
    };
    adapter_file::write(Path::new(&adapter), 0.01);
    is_made(None, "--resume");
    differs(Some(&adapter), "adapter: scale was not given and is 1");
    differs(Some(&format!("{adapter}:0.5")), "adapter: scale was 1 and is 0.5");
    adapter_file::write(Path::new(&adapter), 0.02);
    differs(Some(&format!("{adapter}:0.5")), "adapter_model.safetensors: digest differs");
}

/// An adapter in a GGUF file that changes nothing, and whose training has seen the tokens of some bits.
fn write_gguf(path: &str, trained: u32) {
    let text = |key: &str, value: &str| (key.to_owned(), MetaValue::Text(value.to_owned()));
    let metadata = [
        text("general.type", "adapter"),
        text("adapter.type", "lora"),
        text("general.architecture", "llama"),
        ("ffwd.adapter.trained_rows".to_owned(), MetaValue::U32s(vec![trained; 4096 / 32])),
    ];
    let zeros = |side: &str, shape: [usize; 2]| Tensor {
        name: format!("blk.2.ffn_up.weight.lora_{side}"),
        shape: shape.to_vec(),
        kind: 0,
        bytes: vec![0; 4 * shape[0] * shape[1]],
    };
    std::fs::write(path, gguf_file::file(&metadata, &[zeros("a", [4, 256]), zeros("b", [768, 4])])).unwrap();
}

#[test]
fn a_text_of_tokens_that_the_training_has_not_seen_gets_a_note() {
    let folder = Folder::new();
    folder.write("in/a.txt", "The text");
    folder.write("in/b.txt", "Another text");
    let adapter = folder.path("adapter.gguf");
    for (trained, seen) in [(0, false), (u32::MAX, true)] {
        write_gguf(&adapter, trained);
        for (from, texts) in [("in/a.txt", 1), ("in", 2)] {
            let (code, _, err) = folder.extract(from, &["--adapter", &adapter]);
            let notes = err.matches("has seen few of this text's tokens").count();
            assert_eq!((code, notes), (0, if seen { 0 } else { texts }), "{from}: {err}");
        }
    }
}
