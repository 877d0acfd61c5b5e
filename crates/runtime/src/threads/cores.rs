//! The number of threads of engines that were not given one: the physical cores for this process.
//!
//! Two threads on one core share its arithmetic, so a core counts once. Cores that the system keeps
//! for light work are left out: every product would wait for them. Limits of the process count:
//! its affinity, and the quota of its control group.
//!
//! # Cost
//!
//! A few small files on Linux, read once.
//!
//! # Alternatives considered
//!
//! Libraries that count cores were rejected: none of them considers affinity, quota, and kinds of
//! cores together.

use std::collections::BTreeSet;
use std::path::Path;

/// A core whose capacity is this many per cent of the largest one's counts as well.
const LEAST_CAPACITY: usize = 90;

/// Returns the number of threads of engines that were not given one: `CANDLE_NUM_THREADS` or
/// `RAYON_NUM_THREADS` in the environment, or else the number of physical cores that this process
/// may use.
///
/// ```
/// assert!(ffwd_runtime::default_threads() >= 1);
/// ```
pub fn default_threads() -> usize {
    let set = |name| std::env::var(name).ok()?.parse().ok().filter(|number| *number > 0);
    set("CANDLE_NUM_THREADS").or_else(|| set("RAYON_NUM_THREADS")).unwrap_or_else(available_cores)
}

fn available_cores() -> usize {
    // Affinity and quota, in logical cores.
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    let physical = linux_cores(Path::new("/")).unwrap_or_else(candle_core::utils::get_num_threads);
    physical.clamp(1, logical)
}

/// Returns the number of physical cores that this process may use, if the files below `root` tell.
fn linux_cores(root: &Path) -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let status = read("proc/self/status")?;
    let mut allowed = listed(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)?;
    // Intel lists its fast cores, others tell the capacity of each.
    if let Some(fast) = read("sys/devices/cpu_core/cpus").and_then(|list| listed(&list)) {
        keep(&mut allowed, |cpu| fast.contains(&cpu));
    }
    let of_cpu = |cpu: usize, name: &str| read(&format!("sys/devices/system/cpu/cpu{cpu}/{name}"));
    let capacity = |cpu| of_cpu(cpu, "cpu_capacity").and_then(|text| text.trim().parse().ok());
    let largest = allowed.iter().filter_map(|cpu| capacity(*cpu)).max().unwrap_or(0);
    keep(&mut allowed, |cpu| capacity(cpu).is_none_or(|c: usize| c * 100 >= largest * LEAST_CAPACITY));
    // Threads of one core have the same list.
    let core = |cpu: &usize| of_cpu(*cpu, "topology/thread_siblings_list").unwrap_or_else(|| cpu.to_string());
    Some(allowed.iter().map(core).collect::<BTreeSet<String>>().len())
}

/// Keeps the processors that fit, unless none does.
fn keep(allowed: &mut BTreeSet<usize>, fits: impl Fn(usize) -> bool) {
    let kept: BTreeSet<usize> = allowed.iter().copied().filter(|cpu| fits(*cpu)).collect();
    if !kept.is_empty() {
        *allowed = kept;
    }
}

/// Returns the numbers of a list such as `0-3,8`.
fn listed(list: &str) -> Option<BTreeSet<usize>> {
    let mut numbers = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the files of a machine and counts its cores.
    fn cores(name: &str, files: &[(&str, String)]) -> Option<usize> {
        let root = std::env::temp_dir().join(format!("ffwd-cores-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let cores = linux_cores(&root);
        std::fs::remove_dir_all(root).unwrap();
        cores
    }

    fn status(list: &str) -> (&'static str, String) {
        ("proc/self/status", format!("Name:\tffwd\nCpus_allowed_list:\t{list}\nMems_allowed:\t1\n"))
    }

    fn siblings(cpu: usize, list: &str) -> (&'static str, String) {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        (path.leak(), format!("{list}\n"))
    }

    fn capacity(cpu: usize, capacity: usize) -> (&'static str, String) {
        (format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity").leak(), format!("{capacity}\n"))
    }

    #[test]
    fn two_threads_of_a_core_count_once_and_only_allowed_cores_count() {
        let pairs: Vec<_> =
            (0..8).map(|cpu| siblings(cpu, &format!("{},{}", cpu % 4, cpu % 4 + 4))).collect();
        assert_eq!(cores("pairs", &[&[status("0-7")], &pairs[..]].concat()), Some(4));
        assert_eq!(cores("some", &[&[status("0-1,4")], &pairs[..]].concat()), Some(2));
        assert_eq!(cores("plain", &[status("0,2-3")]), Some(3), "without topology each counts");
        assert_eq!(cores("none", &[("proc/self/status", "Name:\tffwd\n".into())]), None);
    }

    #[test]
    fn slow_cores_are_left_out_unless_there_are_no_others() {
        let fast = || ("sys/devices/cpu_core/cpus", "0-3\n".to_owned());
        assert_eq!(
            cores("intel", &[status("0-11"), fast(), siblings(0, "0-1"), siblings(1, "0-1")]),
            Some(3)
        );
        assert_eq!(cores("slow", &[status("4-11"), fast()]), Some(8));
        let arm = [0, 1, 2, 3].map(|cpu| capacity(cpu, if cpu < 2 { 450 } else { 1024 }));
        assert_eq!(cores("arm", &[&[status("0-3")], &arm[..]].concat()), Some(2));
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(listed("0-2,7\n"), Some(BTreeSet::from([0, 1, 2, 7])));
        assert_eq!((listed(""), listed("a-b")), (None, None));
    }
}
