use ffwd::*; use ffwd::decode::*; use ffwd::model::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let prec = if a.get(3).map(|s| s=="f32").unwrap_or(false) { LoadOptions::with_precision(Precision::F32) } else { LoadOptions::default() };
    let e = Engine::builder().options(prec).build().unwrap();
    println!("cost {:?}", e.target().cost_table().points());
    let n: usize = a[2].parse().unwrap();
    let mut tot = [Stats::default(), Stats::default(), Stats::default(), Stats::default()]; let mut diff=0; let mut inv=0; let mut errs=0;
    for line in std::fs::read_to_string(&a[1]).unwrap().lines().take(n) {
        let v: serde_json::Value = serde_json::from_str(line).unwrap();
        let schema = v["schema"].to_string(); let text = v["text"].as_str().unwrap();
        let js = jsonschema::validator_for(&v["schema"]).unwrap(); let mut texts = vec![];
        for (i, mode) in Mode::ALL.into_iter().enumerate() {
            let r = match extract::request(&schema, text) { Ok(r)=>r, Err(er)=>{ println!("{} {er}", v["id"]); errs+=1; break } };
            let r = if std::env::var("UNGATED").is_ok() { r.ungated() } else { r }; let o = match e.generate(&r.mode(mode)) { Ok(o)=>o, Err(er)=>{ println!("{} {er}", v["id"]); errs+=1; break } };
            let s=&o.stats; let t=&mut tot[i]; t.tokens+=s.tokens; t.forwards+=s.forwards; t.forced+=s.forced; t.drafted+=s.drafted; t.accepted+=s.accepted; t.seconds+=s.seconds; t.draft_forwards+=s.draft_forwards;
            t.accepted_by_source.forced+=s.accepted_by_source.forced; t.accepted_by_source.lookup+=s.accepted_by_source.lookup; t.accepted_by_source.draft_model+=s.accepted_by_source.draft_model; t.drafted_by_source.forced+=s.drafted_by_source.forced; t.drafted_by_source.lookup+=s.drafted_by_source.lookup; t.drafted_by_source.draft_model+=s.drafted_by_source.draft_model;
            if o.finish==Finish::Stop { let rec: serde_json::Value = serde_json::from_str(&o.text).unwrap(); if !js.is_valid(&rec) { inv+=1; println!("INVALID {} {}", v["id"], o.text); } } else { println!("{} {:?} {:?}", v["id"], mode, o.finish); }
            texts.push(o.text);
        }
        if texts.len()==4 && texts[0]!=texts[1] { diff+=1; println!("DIFF {}\n {}\n {}", v["id"], texts[0], texts[1]); }
    }
    for (m,t) in Mode::ALL.iter().zip(&tot) { println!("{:?} {:?}", m, t); }
    println!("diff {diff} invalid {inv} errs {errs}");
}
