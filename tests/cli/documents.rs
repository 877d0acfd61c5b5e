//! The commands of docs/tour.md run, in their order, in one folder, and those of docs/seeds.md, of which
//! each row has a way to see its idea, and each file exists.

use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join("docs").join(name)).unwrap()
}

/// A shell in a temporary folder, with the program on its path.
struct Shell {
    folder: tempfile::TempDir,
    path: String,
}

impl Shell {
    /// Copies these folders of the project.
    fn new(parts: &[&str]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_ffwd")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let shell = Shell { folder: tempfile::tempdir().unwrap(), path };
        for part in parts {
            shell.output(&format!("mkdir -p {part} && cp -r {ROOT}/{part}/. {part}"));
        }
        shell
    }

    /// Runs a script, which must succeed.
    fn output(&self, script: &str) -> String {
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).current_dir(self.folder.path()).env("PATH", &self.path);
        let output = shell.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert!(output.status.success(), "{script}\n{text}");
        text
    }
}

#[test]
fn the_commands_of_the_tour_run() {
    let (page, shell) = (page("tour.md"), Shell::new(&["examples"]));
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let outputs: Vec<String> = blocks.map(|commands| shell.output(&format!("set -eu\n{commands}"))).collect();
    assert!(outputs.len() > 10, "{}", outputs.len());
    for made in ["invoices.parquet", "report.html", "decode.html", "fraction.html", "masks.html"] {
        assert!(std::fs::metadata(shell.folder.path().join(made)).unwrap().len() > 1000, "{made}");
    }
    let all = outputs.concat();
    for said in ["\"event\":\"end\"", "\"spans\":{", "\"chunks\":[", "(3 were done)", "forced run"] {
        assert!(all.contains(said), "{said}\n{all}");
    }
}

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
    let (page, shell) = (page("seeds.md"), Shell::new(&["examples", "benches/grammars"]));
    let prepare = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    shell.output(&format!("set -e\n{prepare}"));
    let rows = rows(&page);
    assert!(rows.len() > 70, "{}", rows.len());
    // Benchmarks take long, and the tests of the tour and of `bench` run them. A server does not end.
    let ends = |command: &&str| !command.starts_with("ffwd bench ") && *command != "ffwd serve";
    let mut all: Vec<&str> = rows.iter().flat_map(|cells| commands(&cells[2])).filter(ends).collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 35, "{}", all.len());
    all.into_iter().for_each(|script| drop(shell.output(script)));
}

#[test]
fn every_idea_has_a_place_and_a_way_to_see_it() {
    let root = Path::new(ROOT).join("docs");
    for cells in rows(&page("seeds.md")) {
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
