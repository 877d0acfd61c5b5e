//! Damaged and malicious model files: an error each time, no panic, no large allocation.
//!
//! The allocator of this test program notes the largest allocation of the whole process. So each
//! test with a limit runs in a process of its own.

use ffwd::model::embedded::DRAFT_GGUF;
use ffwd::model::{LoadOptions, Model, ModelConfig};
use ffwd_testkit::child;
use ffwd_testkit::random::Random;

use crate::common::allocations::largest;
use crate::common::{gguf, models};

const CONFIG: &[u8] = include_bytes!("../../examples/data/shakespeare-char-1m/config.json");
const WEIGHTS: &[u8] = include_bytes!("../../examples/data/shakespeare-char-1m/model.safetensors");
const SHAKESPEARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/shakespeare-char-1m");

/// Far above the need of the files here (a megabyte, widened four times), far below a false count.
const LIMIT: usize = 64 << 20;

/// A few damaged positions in `data[..within]`: random bytes, extreme numbers, bytes lost.
fn damage(data: &mut Vec<u8>, within: usize, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(within.min(data.len().saturating_sub(8)).max(1));
        match random.below(5) {
            0 => data[at] = random.next() as u8,
            1 => data[at] ^= 1 << random.below(8),
            2 => data[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes()),
            3 => data[at..at + 8].copy_from_slice(&(1u64 << random.below(64)).to_le_bytes()),
            _ => {
                data.remove(at);
            }
        }
    }
}

/// Uses what loaded in spite of the damage.
fn run(model: &Model) {
    let n = model.config().vocab_size as u32;
    let tokens: Vec<u32> = [0, 1, n / 2, n - 1].to_vec();
    if let Ok(logits) = model.forward(&tokens, &mut model.new_cache().unwrap(), 3..4) {
        assert_eq!(logits[0].len(), n as usize);
    }
}

/// What loads in spite of the damage, which must run, and what is refused.
#[derive(Default)]
struct Outcomes {
    loaded: usize,
    refused: usize,
}

impl Outcomes {
    fn note(&mut self, result: ffwd::Result<Model>) {
        match result {
            Ok(model) => {
                self.loaded += 1;
                run(&model);
            }
            Err(error) => {
                self.refused += 1;
                assert!(!error.message().is_empty());
            }
        }
    }
}

#[test]
fn damaged_gguf_headers() {
    if !child::is_child(module_path!(), "damaged_gguf_headers", &[]) {
        return;
    }
    let header = find(DRAFT_GGUF, b"blk.0.attn_norm.weight").max(find(DRAFT_GGUF, b"token_embd.weight"));
    assert!(header > 1000, "the table of tensors follows the metadata");
    let mut random = Random::new(0x5eed);
    let (mut outcomes, options) = (Outcomes::default(), models::f32_options());
    for round in 0..3000 {
        let mut file = DRAFT_GGUF.to_vec();
        // Most rounds damage the first bytes and the table, where counts, shapes and offsets are.
        match round % 3 {
            0 => damage(&mut file, 1500, &mut random),
            1 => {
                let mut table = file.split_off(header - 200);
                damage(&mut table, 3000, &mut random);
                file.extend(table);
            }
            _ => file.truncate(random.below(DRAFT_GGUF.len())),
        }
        outcomes.note(Model::from_gguf_bytes(&file, &options));
    }
    let Outcomes { loaded, refused } = outcomes;
    println!("{loaded} loaded, {refused} refused, largest allocation {}", largest());
    assert!(refused > 1500 && loaded > 10, "the damage matters, and not all of it hits: {loaded}, {refused}");
    assert!(largest() < LIMIT);
}

fn find(data: &[u8], what: &[u8]) -> usize {
    data.windows(what.len()).position(|w| w == what).unwrap()
}

#[test]
fn damaged_configurations() {
    if !child::is_child(module_path!(), "damaged_configurations", &[]) {
        return;
    }
    let (mut random, mut outcomes) = (Random::new(77), Outcomes::default());
    for round in 0..3000 {
        let mut text = CONFIG.to_vec();
        if round % 2 == 0 {
            // Other digits keep it JSON.
            let digits: Vec<usize> = (0..text.len()).filter(|i| text[*i].is_ascii_digit()).collect();
            for _ in 0..=random.below(3) {
                text[digits[random.below(digits.len())]] = b'0' + random.below(10) as u8;
            }
        } else {
            damage(&mut text, usize::MAX, &mut random);
        }
        if ModelConfig::from_json(&text).is_ok() {
            outcomes.note(Model::from_safetensors_bytes(&text, WEIGHTS, &LoadOptions::default()));
        }
    }
    assert!(outcomes.loaded > 10, "{}", outcomes.loaded);
    assert!(largest() < LIMIT);
}

#[test]
fn damaged_safetensors() {
    if !child::is_child(module_path!(), "damaged_safetensors", &[]) {
        return;
    }
    let (mut random, mut outcomes) = (Random::new(99), Outcomes::default());
    for round in 0..1500 {
        let mut file = WEIGHTS.to_vec();
        if round % 4 == 0 {
            file.truncate(random.below(WEIGHTS.len()));
        } else {
            damage(&mut file, 4000, &mut random);
        }
        outcomes.note(Model::from_safetensors_bytes(CONFIG, &file, &LoadOptions::default()));
    }
    assert!(outcomes.refused > 500, "{}", outcomes.refused);
    assert!(largest() < LIMIT);
}

/// The families and formats that the embedded models are not: biases, norms of queries, divisors of
/// frequencies, 4- and 6-bit blocks.
#[test]
fn damaged_files_of_other_families() {
    if !child::is_child(module_path!(), "damaged_files_of_other_families", &[]) {
        return;
    }
    use candle_core::quantized::GgmlDType;
    use candle_core::{DType, Device, Tensor};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    let mut random = Random::new(0xfa11);
    for row in models::families("damage") {
        let (family, config) = (&*row.family, &row.config);
        let mut weights = models::weights(config, DType::F32, 3);
        if family == "llama" {
            let divisors = Tensor::ones(32, DType::F32, &Device::Cpu).unwrap();
            weights.insert("rope_freqs.weight".into(), divisors);
        }
        gguf::write_gguf_with(&path, &weights, &models::parsed(config), &|name| match name {
            "blk.0.ffn_down.weight" | "output.weight" => GgmlDType::Q6K,
            _ => GgmlDType::Q4K,
        });
        let whole = std::fs::read(&path).unwrap();
        let header = whole.windows(4).rposition(|w| w == b"norm").unwrap() + 100;
        let mut outcomes = Outcomes::default();
        for round in 0..700 {
            let mut file = whole.clone();
            match round % 3 {
                0 => damage(&mut file, header, &mut random),
                // Scales and values: any bits are a number, a model, and a run.
                1 => damage(&mut file, usize::MAX, &mut random),
                _ => file.truncate(random.below(whole.len())),
            }
            outcomes.note(Model::from_gguf_bytes(&file, &LoadOptions::default()));
        }
        let Outcomes { loaded, refused } = outcomes;
        assert!(refused > 200 && loaded > 100, "{family}: {loaded} loaded, {refused} refused");
    }
    assert!(largest() < LIMIT);
}

#[test]
fn damaged_chat_templates() {
    if !child::is_child(module_path!(), "damaged_chat_templates", &[]) {
        return;
    }
    let source = "{% for m in messages %}{% if m.role == 'user' and loop.first %}{{ m['content'] | trim }}\
        {% elif m.content.split('a')[-1] %}{{ m | tojson(indent=2) }}{% endif %}{% endfor %}{{ 'x' * 3 }}\
        {%- set ns = namespace(n=1) -%}{{ messages[1:][::-1] | length + ns.n }}{{ strftime_now('%d') }}";
    let messages = [ffwd::Message::user(" hi "), ffwd::Message::assistant("banana")];
    let options = ffwd::ChatOptions::default();
    assert!(ffwd::ChatTemplate::new(source).unwrap().render(&messages, &options).unwrap().starts_with("hi"));
    let mut random = Random::new(4242);
    let mut failed = 0;
    for _ in 0..5000 {
        let mut text = source.as_bytes().to_vec();
        damage(&mut text, usize::MAX, &mut random);
        let text = String::from_utf8_lossy(&text);
        let rendered = ffwd::ChatTemplate::new(&text).and_then(|t| t.render(&messages, &options));
        failed += usize::from(rendered.is_err());
    }
    assert!(failed > 500, "{failed}");
    assert!(largest() < LIMIT);
}

#[test]
fn random_bytes_are_no_model() {
    let mut random = Random::new(5);
    for _ in 0..2000 {
        let mut bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next() as u8).collect();
        assert!(ModelConfig::from_json(&bytes).is_err());
        assert!(Model::from_gguf_bytes(&bytes, &LoadOptions::default()).is_err());
        // The same behind a correct beginning.
        let mut gguf = b"GGUF\x03\0\0\0".to_vec();
        gguf.append(&mut bytes);
        assert!(Model::from_gguf_bytes(&gguf, &LoadOptions::default()).is_err());
    }
}

#[test]
fn folders_without_a_model_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let load = || Model::from_dir(dir.path(), &LoadOptions::default()).map(|_| ()).unwrap_err();
    assert!(load().hint_text().unwrap().contains("model.safetensors"));
    std::fs::write(dir.path().join("a.gguf"), DRAFT_GGUF).unwrap();
    assert!(Model::from_dir(dir.path(), &LoadOptions::default()).is_ok());
    std::fs::write(dir.path().join("b.gguf"), b"x").unwrap();
    assert!(load().message().contains("2 GGUF files"));
    let index = dir.path().join("model.safetensors.index.json");
    for (text, part) in [
        ("{", "not JSON"),
        ("{}", "weight_map"),
        (r#"{"weight_map":{"a":"../../etc/passwd"}}"#, "not a file name"),
        (r#"{"weight_map":{"a":""}}"#, "not a file name"),
    ] {
        std::fs::write(&index, text).unwrap();
        assert!(load().message().contains(part), "{text}: {}", load());
    }
    std::fs::write(&index, r#"{"weight_map":{"a":"gone.safetensors"}}"#).unwrap();
    let config = include_bytes!("../../crates/runtime/assets/extract-5m/config.json");
    std::fs::write(dir.path().join("config.json"), config).unwrap();
    assert_eq!(load().kind(), ffwd::ErrorKind::Io);
    assert!(Model::from_dir("/nonexistent", &LoadOptions::default()).is_err());
}

#[test]
fn shards_are_read_together() {
    let dir = tempfile::tempdir().unwrap();
    let tensors = candle_core::safetensors::load_buffer(WEIGHTS, &candle_core::Device::Cpu).unwrap();
    models::write_dir(dir.path(), &serde_json::from_slice(CONFIG).unwrap(), &tensors, 2);
    let options = LoadOptions::default();
    let (a, b) =
        (Model::from_dir(dir.path(), &options).unwrap(), Model::from_dir(SHAKESPEARE, &options).unwrap());
    assert_eq!(models::all(&a, &[1, 2, 3]), models::all(&b, &[1, 2, 3]));
}
