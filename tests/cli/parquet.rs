//! Parquet as input and output. Its bytes have unit tests; here are the commands.

use crate::pile::{Folder, lines};

const RECORD: &str = r#"{"type": "object", "required": ["n", "who", "tags"], "properties": {
    "n": {"const": 7}, "who": {"type": "object", "required": ["name"],
    "properties": {"name": {"enum": ["Ann"]}}}, "tags": {"const": ["a", "b"]}}}"#;

#[test]
fn a_table_that_was_written_can_be_read() {
    let folder = Folder::new();
    folder.write("s.json", RECORD);
    for i in 0..5 {
        folder.write(&format!("in/{i}.txt"), &format!("Text {i}"));
    }
    let table = folder.path("out.parquet");
    let (code, out, err) = folder.extract("in", &["-o", &table]);
    assert_eq!((code, &*out), (0, ""), "{err}");
    assert_eq!(folder.lines("out.parquet.journal").len(), 5);
    let (code, _, err) = folder.extract("in", &["-o", &table]);
    assert!(code == 2 && err.contains("the output exists") && err.contains("--resume"), "{err}");
    // A broken table is made anew from the journal.
    std::fs::write(&table, "PAR1").unwrap();
    let (code, _, err) = folder.extract("in", &["-o", &table, "--resume"]);
    assert!(code == 0 && err.contains("(5 were done)"), "{err}");
    assert!(!std::path::Path::new(&folder.path("out.parquet.partial")).exists());
    // Its columns are texts and identifiers.
    let (code, out, err) = folder.extract("out.parquet", &["--text-field", "who.name", "--id-field", "n"]);
    assert_eq!(code, 0, "{err}");
    let got: Vec<_> = lines(&out).iter().map(|line| (line["source"].clone(), line["id"].clone())).collect();
    let want: Vec<_> = (1..=5).map(|i| (format!("{table}:{i}").into(), 7.into())).collect();
    assert_eq!(got, want);
    let (_, out, _) = folder.extract("out.parquet", &["--text-field", "_source"]);
    assert_eq!(lines(&out).len(), 5);
    // Wrong columns, and no column.
    for (more, part) in [
        (&["--text-field", "n"][..], "the column `n` holds INT64, not texts"),
        (&["--text-field", "who"], "the columns are `_source`, `n`, `who.name`, `tags.list.element`"),
        (&[], "--text-field"),
    ] {
        let (code, _, err) = folder.extract("out.parquet", more);
        assert!(code != 0 && err.contains(part) && err.contains("out.parquet"), "{code} {err}");
        assert_eq!(err.matches("error:").count(), 1, "{err}");
    }
    // Under another name.
    std::fs::copy(&table, folder.path("x.jsonl")).unwrap();
    let (code, _, err) = folder.extract("x.jsonl", &["--text-field", "_source"]);
    assert!(code != 0 && err.contains("this is a Parquet file"), "{code} {err}");
}
