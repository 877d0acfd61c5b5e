//! GGUF files made in memory, with random weights of any block format.

use crate::random::Random;

/// The block formats: number in a file, name, weights and bytes of a block, and where the block has
/// numbers in half precision.
pub const FORMATS: [(u32, &str, usize, usize, &[usize]); 12] = [
    (2, "Q4_0", 32, 18, &[0]),
    (3, "Q4_1", 32, 20, &[0, 2]),
    (6, "Q5_0", 32, 22, &[0]),
    (7, "Q5_1", 32, 24, &[0, 2]),
    (8, "Q8_0", 32, 34, &[0]),
    (10, "Q2_K", 256, 84, &[80, 82]),
    (11, "Q3_K", 256, 110, &[108]),
    (12, "Q4_K", 256, 144, &[0, 2]),
    (13, "Q5_K", 256, 176, &[0, 2]),
    (14, "Q6_K", 256, 210, &[208]),
    (20, "IQ4_NL", 32, 18, &[0]),
    (23, "IQ4_XS", 256, 136, &[0]),
];

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum MetaValue {
    U16(u16),
    U32(u32),
    F32(f32),
    Text(String),
    U32s(Vec<u32>),
}

/// A tensor of a file.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// Number of the type in a file.
    pub kind: u32,
    pub bytes: Vec<u8>,
}

/// Returns a GGUF file.
pub fn file(metadata: &[(String, MetaValue)], tensors: &[Tensor]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    };
    for (key, value) in metadata {
        text(&mut out, key);
        match value {
            MetaValue::U16(n) => {
                out.extend(2u32.to_le_bytes());
                out.extend(n.to_le_bytes());
            }
            MetaValue::U32(n) => {
                out.extend(4u32.to_le_bytes());
                out.extend(n.to_le_bytes());
            }
            MetaValue::F32(n) => {
                out.extend(6u32.to_le_bytes());
                out.extend(n.to_le_bytes());
            }
            MetaValue::Text(t) => {
                out.extend(8u32.to_le_bytes());
                text(&mut out, t);
            }
            MetaValue::U32s(numbers) => {
                out.extend([9u32, 4].map(u32::to_le_bytes).as_flattened());
                out.extend((numbers.len() as u64).to_le_bytes());
                numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
        }
    }
    let mut at = 0u64;
    for tensor in tensors {
        text(&mut out, &tensor.name);
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|d| out.extend((*d as u64).to_le_bytes()));
        out.extend(tensor.kind.to_le_bytes());
        out.extend(at.to_le_bytes());
        at = (at + tensor.bytes.len() as u64).next_multiple_of(32);
    }
    for tensor in tensors {
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&tensor.bytes);
    }
    out
}

/// Returns the bits in half precision of a power of two from 2^-14 to 1.
fn half_of_power(exponent: i32) -> u16 {
    ((exponent + 15) as u16) << 10
}

/// Returns random blocks of `weights` weights of the format `kind`, which are of about the size of
/// those in a trained model.
pub fn random_blocks(kind: u32, weights: usize, random: &mut Random) -> Vec<u8> {
    let Some((_, _, per_block, size, halves)) = FORMATS.iter().find(|f| f.0 == kind) else {
        panic!("no block format {kind}")
    };
    let mut bytes: Vec<u8> = (0..weights / per_block * size).map(|_| random.next() as u8).collect();
    for block in bytes.chunks_exact_mut(*size) {
        for (i, at) in halves.iter().enumerate() {
            // Values are up to 16 or 128, and with two levels their scales are up to 64.
            let level = if *per_block == 32 { 8 } else { 14 };
            let bits = half_of_power(-level - random.below(2) as i32) | (random.below(2) as u16) << 15;
            // Minimums are about half of the largest value.
            let bits = if i == 1 { bits + (2 << 10) } else { bits };
            block[*at..*at + 2].copy_from_slice(&bits.to_le_bytes());
        }
    }
    bytes
}

/// Returns the metadata and the tensors of a model of the architecture `llama`, with matrices of the
/// layers in the format `kind`. `shape` is vocabulary, width, feed-forward width, layers and heads.
pub fn llama(kind: u32, shape: [usize; 5], random: &mut Random) -> (Vec<(String, MetaValue)>, Vec<Tensor>) {
    let [vocab, hidden, feed, layers, heads] = shape;
    let number = |key: &str, n: usize| (format!("llama.{key}"), MetaValue::U32(n as u32));
    let metadata = vec![
        ("general.architecture".to_owned(), MetaValue::Text("llama".to_owned())),
        number("context_length", 512),
        number("embedding_length", hidden),
        number("feed_forward_length", feed),
        number("block_count", layers),
        number("attention.head_count", heads),
        number("attention.head_count_kv", heads),
        ("llama.attention.layer_norm_rms_epsilon".to_owned(), MetaValue::F32(1e-5)),
    ];
    let mut tensors = Vec::new();
    let mut floats = |name: &str, shape: Vec<usize>, number: &mut dyn FnMut() -> f32| {
        let count: usize = shape.iter().product();
        let bytes = (0..count).flat_map(|_| number().to_le_bytes()).collect();
        tensors.push(Tensor { name: name.to_owned(), shape, kind: 0, bytes });
    };
    floats("token_embd.weight", vec![vocab, hidden], &mut || random.below(2001) as f32 / 1000.0 - 1.0);
    floats("output_norm.weight", vec![hidden], &mut || 1.0);
    for layer in 0..layers {
        for name in ["attn_norm", "ffn_norm"] {
            floats(&format!("blk.{layer}.{name}.weight"), vec![hidden], &mut || 1.0);
        }
    }
    for layer in 0..layers {
        for (name, outputs, inputs) in [
            ("attn_q", hidden, hidden),
            ("attn_k", hidden, hidden),
            ("attn_v", hidden, hidden),
            ("attn_output", hidden, hidden),
            ("ffn_gate", feed, hidden),
            ("ffn_up", feed, hidden),
            ("ffn_down", hidden, feed),
        ] {
            tensors.push(Tensor {
                name: format!("blk.{layer}.{name}.weight"),
                shape: vec![outputs, inputs],
                kind,
                bytes: random_blocks(kind, outputs * inputs, random),
            });
        }
    }
    (metadata, tensors)
}
