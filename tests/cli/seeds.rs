//! The commands of docs/seeds.md run, each row has a way to see its idea, and each file exists.

use std::path::Path;
use std::process::Command;

/// Returns the cells of the rows of all tables, without their heads.
fn rows(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter(|line| line.starts_with('|'));
    // A bar within a cell is escaped.
    let cells = |line: &str| -> Vec<String> {
        let plain = line.replace("\\|", "\u{0}");
        plain.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
    };
    lines.map(cells).filter(|cells| cells[0] != "idea" && !cells[0].starts_with("---")).collect()
}

/// Returns the commands within a cell; `!` is in front of one that fails.
fn commands(cell: &str) -> impl Iterator<Item = &str> {
    let spans = cell.split('`').skip(1).step_by(2);
    spans.filter(|span| span.starts_with("ffwd ") || span.starts_with("! ffwd "))
}

#[test]
fn the_commands_about_the_articles_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/seeds.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for part in ["examples", "benches/grammars"] {
        let to = folder.path().join(part);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        assert!(Command::new("cp").arg("-r").arg(root.join(part)).arg(to).status().unwrap().success());
    }
    let program = Path::new(env!("CARGO_BIN_EXE_ffwd")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let run = |script: &str| {
        let output =
            Command::new("sh").args(["-c", script]).current_dir(folder.path()).env("PATH", &path).output();
        let output = output.unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script}\n{text}");
    };
    let prepare = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    run(&format!("set -e\n{prepare}"));
    let rows = rows(&page);
    assert!(rows.len() > 70, "{}", rows.len());
    // Benchmarks take long, and the tests of the tour and of `bench` run them. A server does not end.
    let ends = |command: &&str| !command.starts_with("ffwd bench ") && *command != "ffwd serve";
    let mut all: Vec<&str> = rows.iter().flat_map(|cells| commands(&cells[2])).filter(ends).collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 35, "{}", all.len());
    all.into_iter().for_each(run);
}

#[test]
fn every_idea_has_a_place_and_a_way_to_see_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = std::fs::read_to_string(root.join("seeds.md")).unwrap();
    for cells in rows(&page) {
        assert_eq!(cells.len(), 3, "{cells:?}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{cells:?}");
        let links = cells.iter().flat_map(|cell| cell.split("](").skip(1));
        for link in links.map(|rest| rest.split([')', '#']).next().unwrap()) {
            assert!(root.join(link).exists(), "{link}: {cells:?}");
        }
        let ways =
            ["`ffwd ", "`! ffwd ", "tab *", "](", "`compile_seconds`", "column", "`ffwd_", "`--structured"];
        assert!(ways.iter().any(|way| cells[2].contains(way)), "{cells:?}");
    }
}
