//! The commands of docs/tour.md run, in their order, in one folder.

use std::path::Path;
use std::process::Command;

/// Returns the blocks of commands.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn the_commands_of_the_tour_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/tour.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(root.join("examples")).arg(folder.path()).status().unwrap();
    assert!(copied.success());
    let program = Path::new(env!("CARGO_BIN_EXE_ffwd")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let (mut outputs, blocks) = (Vec::new(), blocks(&page));
    assert!(blocks.len() > 10, "{}", blocks.len());
    for commands in blocks {
        let script = format!("set -eu\n{commands}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(folder.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{commands}\n{text}");
        outputs.push(text);
    }
    for made in ["invoices.parquet", "report.html", "decode.html", "fraction.html", "masks.html"] {
        assert!(std::fs::metadata(folder.path().join(made)).unwrap().len() > 1000, "{made}");
    }
    let all = outputs.concat();
    for said in ["\"event\":\"end\"", "\"spans\":{", "\"chunks\":[", "(3 were done)", "forced run"] {
        assert!(all.contains(said), "{said}\n{all}");
    }
}
