//! The cost of a forward by the number of its rows, and the cost of equal bits for a row in any
//! batch: this crate's kernels against candle's stock model of the same weights.
//!
//! ```text
//! cargo bench --bench rows
//! ```
//!
//! The fastest of many passes counts. Both models run after the same number of cached tokens, with
//! the logits of the last row only.

use std::hint::black_box;
use std::time::Instant;

use candle_core::quantized::gguf_file::{self, Content};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use ffwd::model::{LoadOptions, Model, Precision};
use ffwd::{Error, ErrorKind, Result};

const SIZES: [usize; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 64, 256];
const CACHED: usize = 128;
const PASSES: usize = 60;

/// The fastest of some passes, in milliseconds.
fn fastest(mut pass: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    let begun = Instant::now();
    for i in 0..PASSES {
        let start = Instant::now();
        pass()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
        if i > 8 && begun.elapsed().as_secs_f64() > 1.5 {
            break;
        }
    }
    Ok(best)
}

fn own(model: &Model, m: usize, all: bool) -> Result<f64> {
    let mut cache = model.new_cache()?;
    let tokens: Vec<u32> = (0..CACHED.max(m) as u32).map(|i| 500 + i).collect();
    model.forward(&tokens[..CACHED], &mut cache, 0..0)?;
    fastest(|| {
        let rows = if all { 0..m } else { m - 1..m };
        black_box(model.forward(&tokens[..m], &mut cache, rows)?);
        cache.truncate(CACHED);
        Ok(())
    })
}

fn stock(path: &std::path::Path, m: usize) -> Result<f64> {
    let bad = |e: candle_core::Error| Error::new(ErrorKind::Model, e.to_string());
    let mut file = std::fs::File::open(path).map_err(|e| Error::new(ErrorKind::Model, e.to_string()))?;
    let content = Content::read(&mut file).map_err(bad)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, &Device::Cpu).map_err(bad)?;
    let tokens = |n: usize| Tensor::new((0..n as u32).map(|i| 500 + i).collect::<Vec<_>>(), &Device::Cpu);
    let input = tokens(m).and_then(|t| t.unsqueeze(0)).map_err(bad)?;
    let context = tokens(CACHED).and_then(|t| t.unsqueeze(0)).map_err(bad)?;
    let mut best = f64::INFINITY;
    for _ in 0..PASSES / 4 {
        // Its cache cannot be shortened, so it is filled anew each time.
        model.forward(&context, 0).map_err(bad)?;
        let start = Instant::now();
        black_box(model.forward(&input, CACHED).map_err(bad)?);
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// The embedded model with its layers in fewer bits, as files of larger models are; the embedding
/// stays as it is.
fn in_fewer_bits(from: &str, to: &std::path::Path, blocks: GgmlDType) -> candle_core::Result<()> {
    let mut file = std::fs::File::open(from)?;
    let content = Content::read(&mut file)?;
    let mut tensors = Vec::new();
    for name in content.tensor_infos.keys() {
        let tensor = content.tensor(&mut file, name, &Device::Cpu)?;
        let layer = tensor.shape().rank() == 2 && name.starts_with("blk.");
        tensors.push((
            name.as_str(),
            match layer {
                true => QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, blocks)?,
                false => tensor,
            },
        ));
    }
    let metadata: Vec<_> = content.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
    gguf_file::write(&mut std::fs::File::create(to)?, &metadata, &tensors)
}

fn main() -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/runtime/assets/extract-5m/model-q8_0.gguf");
    let dir = tempfile::tempdir().map_err(|e| Error::new(ErrorKind::Model, e.to_string()))?;
    let fewer = |name: &str, blocks| -> Result<_> {
        let to = dir.path().join(name);
        in_fewer_bits(path, &to, blocks).map_err(|e| Error::new(ErrorKind::Model, e.to_string()))?;
        Ok((Model::from_gguf(&to, &LoadOptions::default())?, to))
    };
    let (q6, six) = fewer("six.gguf", GgmlDType::Q6K)?;
    let (q4, four) = fewer("four.gguf", GgmlDType::Q4K)?;
    println!("ms of a forward behind {CACHED} tokens; `all` with the logits of every row");
    print!("{:>4} {:>9}", "rows", "Q8_0 all");
    ["Q8_0", "Q6_K", "Q4_K"].iter().for_each(|name| print!(" {name:>9} {:>9} {:>6}", "candle", "ratio"));
    println!(" {:>9}", "F32");
    let load = |precision| Model::embedded_target(&LoadOptions::with_precision(precision));
    let (q8, f32) = (load(Precision::Q8_0)?, load(Precision::F32)?);
    for m in SIZES {
        print!("{m:>4} {:>9.3}", own(&q8, m, true)?);
        for (model, file) in [(&q8, path.as_ref()), (&q6, six.as_path()), (&q4, four.as_path())] {
            let (own, stock) = (own(model, m, false)?, stock(file, m)?);
            print!(" {own:>9.3} {stock:>9.3} {:>6.2}", own / stock);
        }
        println!(" {:>9.3}", own(&f32, m, false)?);
    }
    Ok(())
}
