//! A small adapter of the embedded model, as a folder of PEFT.

use std::path::Path;

use serde_json::json;

/// Writes an adapter of one matrix of the embedded model, as PEFT does.
pub fn write(folder: &Path, number: f32) {
    const RANK: usize = 4;
    const WIDTH: usize = 256;
    const FEED: usize = 768;
    std::fs::create_dir_all(folder).unwrap();
    let config =
        json!({"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "target_modules": ["layers.2.mlp.up_proj"]});
    std::fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    let name = |side: &str| format!("base_model.model.model.layers.2.mlp.up_proj.lora_{side}.weight");
    let end = RANK * WIDTH * 4;
    let header = json!({
        name("A"): {"dtype": "F32", "shape": [RANK, WIDTH], "data_offsets": [0, end]},
        name("B"): {"dtype": "F32", "shape": [FEED, RANK], "data_offsets": [end, end + FEED * RANK * 4]},
    });
    let header = header.to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    (0..RANK * (WIDTH + FEED)).for_each(|i| file.extend((number * ((i % 7) as f32 - 3.0)).to_le_bytes()));
    std::fs::write(folder.join("adapter_model.safetensors"), file).unwrap();
}
