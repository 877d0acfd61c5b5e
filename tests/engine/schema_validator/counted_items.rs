//! Arrays with conditions on the number of items: random schemas over four items, on every array of up
//! to four of them.

use serde_json::{Value, json};

use ffwd::Policy;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::accepts;

use super::{Counts, Schemas};

const ITEMS: [&str; 4] = ["1", "2", "\"a\"", "\"b\""];
const LONGEST: u32 = 4;

/// Random conditions.
struct Conditions(Random);

impl Conditions {
    /// Returns a schema that some of the items satisfy, all, or none.
    fn item(&mut self) -> Value {
        let all = [json!(1), json!(2), json!("a"), json!("b")];
        match self.0.below(8) {
            0 => json!({"type": "string"}),
            1 => json!({"minimum": 2}),
            2 => json!(self.0.below(2) == 0),
            _ => {
                let some = 1 + self.0.below(15);
                let values: Vec<Value> =
                    (0..4).filter(|i| some >> i & 1 == 1).map(|i| all[i].clone()).collect();
                json!({ "enum": values })
            }
        }
    }

    fn array(&mut self, depth: u32) -> Value {
        let mut schema = json!({});
        if self.0.below(2) == 0 {
            schema["items"] = self.item();
        }
        if self.0.below(4) == 0 {
            schema["prefixItems"] = (0..1 + self.0.below(2)).map(|_| self.item()).collect();
        }
        if self.0.below(3) == 0 {
            schema["contains"] = self.item();
            if self.0.below(2) == 0 {
                schema["minContains"] = self.0.below(3).into();
            }
            if self.0.below(3) == 0 {
                schema["maxContains"] = self.0.below(4).into();
            }
        }
        if self.0.below(4) == 0 {
            schema["maxItems"] = self.0.below(5).into();
        }
        if depth > 0 {
            let parts: Vec<Value> = (0..2 + self.0.below(3)).map(|_| self.array(depth - 1)).collect();
            match self.0.below(5) {
                0 => schema["oneOf"] = parts.into(),
                1 => schema["allOf"] = parts.into_iter().map(|part| json!({ "not": part })).collect(),
                2 => schema["not"] = self.array(depth - 1),
                _ => {}
            }
        }
        schema
    }
}

/// Returns all arrays of up to [`LONGEST`] items.
fn arrays() -> Vec<String> {
    let mut all = Vec::new();
    for length in 0..=LONGEST {
        for mut number in 0..4usize.pow(length) {
            let mut items = Vec::new();
            for _ in 0..length {
                items.push(ITEMS[number % 4]);
                number /= 4;
            }
            all.push(format!("[{}]", items.join(",")));
        }
    }
    all
}

#[test]
fn every_short_array_is_judged_rightly() {
    let (schemas, mut counts) = (Schemas::new(), Counts::default());
    let instances: Vec<Vec<String>> = arrays().into_iter().map(|text| vec![text]).collect();
    for seed in 1..1_000 {
        let mut schema = Conditions(Random::new(seed)).array(2);
        schema["type"] = json!("array");
        schemas.compare(&schema, &instances, &mut counts);
    }
    let (compared, refused) = (counts.compared - counts.empty, counts.refused.len());
    assert!(compared > 600 && refused < 150, "{compared} compared, {refused} refused");
}

/// Each list must have an item that the other five do not have: it must have an item at all.
#[test]
fn lists_of_different_words() {
    let list = |i: usize| json!({"type": "array", "maxItems": 25, "items": {"enum": [i, 10 + i, 20 + i]}});
    let schema = json!({ "oneOf": (0..6).map(list).collect::<Vec<_>>() });
    let grammar = Schemas::new().compile(&schema.to_string(), &Policy::default());
    let grammar = grammar.expect("six conditions that say the same");
    for (text, valid) in
        [("[3]", true), ("[13,3,23]", true), ("[]", false), ("[3,4]", false), ("[30]", false)]
    {
        assert_eq!(accepts(&grammar, text), valid, "{text}");
    }
}
