//! The forward of every family in plain loops, in double precision, from the published definitions.
//! It reads the configuration by itself and shares no code with the library.

use std::collections::HashMap;

use candle_core::{DType, Tensor};
use serde_json::Value;

/// A model: its configuration and weights as in Hugging Face files.
pub(crate) struct PlainForward<'a> {
    config: &'a Value,
    family: &'a str,
    weights: HashMap<String, Vec<f64>>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl<'a> PlainForward<'a> {
    pub(crate) fn new(config: &'a Value, weights: &HashMap<String, Tensor>) -> Self {
        let wide = |t: &Tensor| {
            let t = t.to_dtype(DType::F64).unwrap().flatten_all().unwrap();
            t.to_vec1::<f64>().unwrap()
        };
        let weights = weights.iter().map(|(name, t)| (name.clone(), wide(t))).collect();
        PlainForward { config, family: config["model_type"].as_str().unwrap(), weights }
    }

    fn size(&self, name: &str) -> usize {
        self.config[name].as_u64().unwrap() as usize
    }

    fn number(&self, name: &str, default: f64) -> f64 {
        self.config[name].as_f64().unwrap_or(default)
    }

    fn norm(&self, x: &[f64], name: &str) -> Vec<f64> {
        let scale = 1.0 / (dot(x, x) / x.len() as f64 + self.number("rms_norm_eps", 0.0)).sqrt();
        let less = if self.family == "gemma3_text" { 1.0 } else { 0.0 };
        let weight = &self.weights[&format!("{name}.weight")];
        assert_eq!(weight.len(), x.len(), "{name}");
        x.iter().zip(weight).map(|(x, w)| x * scale * (w + less)).collect()
    }

    fn linear(&self, x: &[f64], name: &str) -> Vec<f64> {
        let weight = &self.weights[&format!("{name}.weight")];
        let mut out: Vec<f64> = weight.chunks_exact(x.len()).map(|row| dot(row, x)).collect();
        if let Some(bias) = self.weights.get(&format!("{name}.bias")) {
            out.iter_mut().zip(bias).for_each(|(o, b)| *o += b);
        }
        out
    }

    /// Logits of all positions.
    pub(crate) fn logits(&self, tokens: &[u32]) -> Vec<Vec<f32>> {
        let hidden = self.size("hidden_size");
        let table = &self.weights["model.embed_tokens.weight"];
        let scale = match self.family {
            "gemma3_text" => (hidden as f64).sqrt(),
            _ => self.number("embedding_multiplier", 1.0),
        };
        let row = |t: &u32| table[*t as usize * hidden..][..hidden].iter().map(|v| v * scale).collect();
        let mut rows: Vec<Vec<f64>> = tokens.iter().map(row).collect();
        for layer in 0..self.size("num_hidden_layers") {
            self.layer(&mut rows, layer);
        }
        let head = if self.config["tie_word_embeddings"] == true { "model.embed_tokens" } else { "lm_head" };
        let scale = self.number("logits_scaling", 1.0);
        let logits = |x: &Vec<f64>| {
            let all = self.linear(&self.norm(x, "model.norm"), head);
            all.iter().map(|v| (v / scale) as f32).collect()
        };
        rows.iter().map(logits).collect()
    }

    fn layer(&self, rows: &mut [Vec<f64>], layer: usize) {
        let at = |part: &str| format!("model.layers.{layer}.{part}");
        let (olmo, gemma) = (self.family == "olmo2", self.family == "gemma3_text");
        let residual = self.number("residual_multiplier", 1.0);
        let add = |x: &mut Vec<f64>, update: &[f64]| {
            x.iter_mut().zip(update).for_each(|(x, u)| *x += residual * u);
        };
        let normed = |x: &Vec<f64>| if olmo { x.clone() } else { self.norm(x, &at("input_layernorm")) };
        let inputs: Vec<Vec<f64>> = rows.iter().map(normed).collect();
        for (x, attended) in rows.iter_mut().zip(self.attention(&inputs, layer)) {
            let mut update = self.linear(&attended, &at("self_attn.o_proj"));
            if olmo || gemma {
                update = self.norm(&update, &at("post_attention_layernorm"));
            }
            add(x, &update);
            let input = match self.family {
                "olmo2" => x.clone(),
                "gemma3_text" => self.norm(x, &at("pre_feedforward_layernorm")),
                _ => self.norm(x, &at("post_attention_layernorm")),
            };
            let both = match self.family {
                "phi3" => self.linear(&input, &at("mlp.gate_up_proj")),
                _ => {
                    let gate = self.linear(&input, &at("mlp.gate_proj"));
                    [gate, self.linear(&input, &at("mlp.up_proj"))].concat()
                }
            };
            let (gate, up) = both.split_at(both.len() / 2);
            let active: Vec<f64> = gate.iter().zip(up).map(|(g, u)| self.active(*g) * u).collect();
            let mut update = self.linear(&active, &at("mlp.down_proj"));
            if olmo || gemma {
                update = self.norm(&update, &at("post_feedforward_layernorm"));
            }
            add(x, &update);
        }
    }

    fn active(&self, x: f64) -> f64 {
        match self.family {
            "gemma3_text" => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                0.5 * x * (1.0 + inner.tanh())
            }
            _ => x / (1.0 + (-x).exp()),
        }
    }

    /// The heads' outputs of all positions, side by side.
    fn attention(&self, inputs: &[Vec<f64>], layer: usize) -> Vec<Vec<f64>> {
        let (heads, kv, d) =
            (self.size("num_attention_heads"), self.size("num_key_value_heads"), self.size("head_dim"));
        let projected: Vec<[Vec<f64>; 3]> =
            inputs.iter().enumerate().map(|(p, x)| self.qkv(x, layer, p)).collect();
        let scale = match self.family {
            "gemma3_text" => self.number("query_pre_attn_scalar", 256.0).powf(-0.5),
            "granite" => self.number("attention_multiplier", 1.0),
            _ => (d as f64).powf(-0.5),
        };
        let window = self.window(layer);
        let one = |p: usize| {
            let mut out = Vec::new();
            for head in 0..heads {
                let from = head / (heads / kv) * d;
                let q = &projected[p][0][head * d..][..d];
                let seen: Vec<usize> = (0..=p).filter(|j| p - j < window).collect();
                let scores: Vec<f64> =
                    seen.iter().map(|j| (scale * dot(q, &projected[*j][1][from..][..d])).exp()).collect();
                let sum: f64 = scores.iter().sum();
                for i in 0..d {
                    let value = |(j, s): (&usize, &f64)| s / sum * projected[*j][2][from + i];
                    out.push(seen.iter().zip(&scores).map(value).sum());
                }
            }
            out
        };
        (0..inputs.len()).map(one).collect()
    }

    /// Queries, keys and values of a position, normed and rotated.
    fn qkv(&self, x: &[f64], layer: usize, position: usize) -> [Vec<f64>; 3] {
        let at = |part: &str| format!("model.layers.{layer}.self_attn.{part}");
        let d = self.size("head_dim");
        let (q_dim, kv_dim) = (self.size("num_attention_heads") * d, self.size("num_key_value_heads") * d);
        let [mut q, mut k, v] = match self.family {
            "phi3" => {
                let all = self.linear(x, &at("qkv_proj"));
                [&all[..q_dim], &all[q_dim..q_dim + kv_dim], &all[q_dim + kv_dim..]].map(<[f64]>::to_vec)
            }
            _ => ["q_proj", "k_proj", "v_proj"].map(|part| self.linear(x, &at(part))),
        };
        for (vector, norm) in [(&mut q, "q_norm"), (&mut k, "k_norm")] {
            let name = at(norm);
            *vector = match self.family {
                "olmo2" => self.norm(vector, &name),
                "gemma3_text" => vector.chunks(d).flat_map(|head| self.norm(head, &name)).collect(),
                _ => continue,
            };
        }
        for head in q.chunks_mut(d).chain(k.chunks_mut(d)) {
            self.rotate(head, layer, position);
        }
        [q, k, v]
    }

    /// The number of positions that a token sees.
    fn window(&self, layer: usize) -> usize {
        let window = self.config["sliding_window"].as_u64().map_or(usize::MAX, |n| n as usize);
        match self.family {
            "phi3" => window,
            "gemma3_text" if !(layer + 1).is_multiple_of(self.size("sliding_window_pattern")) => window,
            _ => usize::MAX,
        }
    }

    fn rotate(&self, head: &mut [f64], layer: usize, position: usize) {
        if self.family == "smollm3" {
            let rotates = match self.config["no_rope_layers"].as_array() {
                Some(list) => list[layer] == 1,
                None => !(layer + 1).is_multiple_of(self.size("no_rope_layer_interval")),
            };
            if !rotates {
                return;
            }
        }
        let local = self.family == "gemma3_text" && self.window(layer) != usize::MAX;
        let theta = match local {
            true => self.number("rope_local_base_freq", 10_000.0),
            false => self.number("rope_theta", 10_000.0),
        };
        let width = (head.len() as f64 * self.number("partial_rotary_factor", 1.0)) as usize;
        let scaling = &self.config["rope_scaling"];
        let (mut divisors, mut factor) = (vec![1.0; width / 2], 1.0);
        match scaling["rope_type"].as_str() {
            Some("longrope") => {
                let (whole, original) =
                    (self.size("max_position_embeddings"), self.size("original_max_position_embeddings"));
                let list = if whole > original { "long_factor" } else { "short_factor" };
                divisors = scaling[list].as_array().unwrap().iter().map(|f| f.as_f64().unwrap()).collect();
                let stretch = whole as f64 / original as f64;
                if stretch > 1.0 {
                    factor = (1.0 + stretch.ln() / (original as f64).ln()).sqrt();
                }
            }
            Some("linear") if !local => divisors.fill(scaling["factor"].as_f64().unwrap()),
            _ => {}
        }
        for i in 0..width / 2 {
            let angle = position as f64 / theta.powf(2.0 * i as f64 / width as f64) / divisors[i];
            let (a, b) = (head[i], head[i + width / 2]);
            head[i] = factor * (a * angle.cos() - b * angle.sin());
            head[i + width / 2] = factor * (b * angle.cos() + a * angle.sin());
        }
    }
}
