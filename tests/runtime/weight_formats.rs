//! Whole models in every format of weights, in one file or in several.

use ffwd::model::{LoadOptions, Model, Precision};
use ffwd_testkit::gguf_file::{self, FORMATS, MetaValue, Tensor, llama};
use ffwd_testkit::random::Random;

use crate::common::models::{all, check_rows_alone, difference};

const SHAPE: [usize; 5] = [64, 256, 512, 2, 4];

fn tokens() -> Vec<u32> {
    (0..20).map(|i| i * 37 % 64).collect()
}

fn load(file: &[u8], precision: Precision) -> Model {
    Model::from_gguf_bytes(file, &LoadOptions::with_precision(precision)).unwrap()
}

/// The same weights in single precision are the reference. Activations in 8 bits are off by up to a
/// 254th of the largest of their block in each product. Over two layers, logits are off by a few
/// hundredths of their size; what is wrong by a row or a scale is off by its whole size.
fn agrees_with_single_precision(file: &[u8], what: &str) {
    let (wide, stored) = (load(file, Precision::F32), load(file, Precision::AsStored));
    let (want, got) = (all(&wide, &tokens()), all(&stored, &tokens()));
    let size = want.iter().flatten().fold(0f32, |most, a| most.max(a.abs()));
    let off = difference(&got, &want);
    assert!(size > 1.0 && off <= 0.1 * size, "{what}: off by {off} of {size}");
    assert!(stored.is_batch_invariant());
    check_rows_alone(&stored, &tokens(), &got, what);
}

#[test]
fn every_format_runs_and_rows_keep_their_bits() {
    for (kind, name, ..) in FORMATS {
        let (metadata, tensors) = llama(kind, SHAPE, &mut Random::new(u64::from(kind)));
        agrees_with_single_precision(&gguf_file::file(&metadata, &tensors), name);
    }
}

#[test]
fn a_file_may_have_another_format_for_each_tensor() {
    let mut random = Random::new(11);
    let (metadata, mut tensors) = llama(2, SHAPE, &mut random);
    for (i, tensor) in tensors.iter_mut().filter(|t| t.kind == 2).enumerate() {
        tensor.kind = FORMATS[i % FORMATS.len()].0;
        tensor.bytes = gguf_file::random_blocks(tensor.kind, tensor.shape.iter().product(), &mut random);
    }
    agrees_with_single_precision(&gguf_file::file(&metadata, &tensors), "mixed");
}

#[test]
fn floats_of_16_bits_take_half_the_memory_and_give_the_same_bits() {
    let (metadata, mut tensors) = llama(8, SHAPE, &mut Random::new(5));
    for kind in [1, 30] {
        for tensor in tensors.iter_mut().filter(|t| t.shape.len() == 2) {
            let count: usize = tensor.shape.iter().product();
            let number = |i: usize| ((i * 7919) % 1009) as f32 / 5000.0 - 0.1;
            tensor.kind = kind;
            tensor.bytes = match kind {
                1 => (0..count).flat_map(|i| half::f16::from_f32(number(i)).to_le_bytes()).collect(),
                _ => (0..count).flat_map(|i| half::bf16::from_f32(number(i)).to_le_bytes()).collect(),
            };
        }
        let file = gguf_file::file(&metadata, &tensors);
        let (wide, stored) = (load(&file, Precision::F32), load(&file, Precision::AsStored));
        assert!(all(&wide, &tokens()) == all(&stored, &tokens()), "{kind}");
        assert_eq!(wide.weight_bytes(), 2 * stored.weight_bytes());
    }
}

#[test]
fn other_formats_are_errors_that_name_tensor_and_type() {
    let (metadata, mut tensors) = llama(2, SHAPE, &mut Random::new(1));
    for (kind, name) in
        [(16, "IQ2_XXS"), (21, "IQ3_S"), (29, "IQ1_M"), (34, "TQ1_0"), (39, "MXFP4"), (77, "77")]
    {
        if let Some(last) = tensors.last_mut() {
            last.kind = kind;
        }
        let file = gguf_file::file(&metadata, &tensors);
        let error = Model::from_gguf_bytes(&file, &LoadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ffwd::ErrorKind::Unsupported);
        let error = error.to_string();
        assert!(error.contains("blk.1.ffn_down.weight") && error.contains(name), "{error}");
    }
}

#[test]
fn a_model_in_several_files_is_one() {
    let (metadata, tensors) = llama(2, SHAPE, &mut Random::new(3));
    let whole = load(&gguf_file::file(&metadata, &tensors), Precision::AsStored);
    let want = all(&whole, &tokens());
    let dir = tempfile::tempdir().unwrap();
    let name = |i: usize| dir.path().join(format!("model-{:05}-of-00003.gguf", i + 1));
    let write = |i: usize, metadata: &[(String, MetaValue)], index: u16, count: u16, tensors: &[Tensor]| {
        let split =
            [("split.no", index), ("split.count", count)].map(|(k, n)| (k.to_owned(), MetaValue::U16(n)));
        let all: Vec<_> = metadata.iter().cloned().chain(split).collect();
        std::fs::write(name(i), gguf_file::file(&all, tensors)).unwrap();
    };
    let parts: Vec<&[Tensor]> = tensors.chunks(tensors.len().div_ceil(3)).collect();
    let split = || {
        (0..3).for_each(|i| write(i, if i == 0 { &metadata } else { &[] }, i as u16, 3, parts[i]));
    };
    split();
    // By the folder, and by the name of any part.
    for path in [dir.path().to_owned(), name(0), name(2)] {
        let model = match path.is_dir() {
            true => Model::from_dir(&path, &LoadOptions::default()),
            false => Model::from_gguf(&path, &LoadOptions::default()),
        };
        assert!(all(&model.unwrap(), &tokens()) == want, "{}", path.display());
    }
    let error = || Model::from_gguf(name(0), &LoadOptions::default()).unwrap_err().to_string();
    write(1, &[], 2, 3, parts[1]);
    assert!(error().contains("part 2 (from 0) of 3"), "{}", error());
    split();
    write(1, &[], 1, 3, parts[0]);
    assert!(error().contains("occurs twice"), "{}", error());
    std::fs::remove_file(name(1)).unwrap();
    assert!(error().contains("model-00002-of-00003.gguf"), "{}", error());
}
