//! The settings of all examples: `--help` states the limits of each number, and these limits hold.
//!
//! It needs the examples in the same target folder, as `cargo test` without a name builds them.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The folder of this test's own kind of examples.
fn examples() -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    test.ancestors().nth(2).expect("a target folder").join("examples")
}

/// All that have settings: each has a folder.
fn names() -> Vec<String> {
    let folders = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).expect("the folder of examples");
    let folders = folders.map(|folder| folder.expect("a folder").path());
    let mut names: Vec<_> = folders
        .filter(|folder| folder.join("main.rs").exists())
        .map(|folder| folder.file_name().expect("a name").to_str().expect("ASCII").to_owned())
        .collect();
    names.sort();
    names
}

fn run(name: &str, arguments: &[&str]) -> Output {
    let example = examples().join(name);
    let output = Command::new(&example).args(arguments).env("COLUMNS", "80").output();
    output.unwrap_or_else(|error| panic!("{}: {error}; build the examples first", example.display()))
}

/// The settings that take a value, with what is said of each.
fn settings(help: &str) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for line in help.lines().map(str::trim) {
        if let Some((setting, words)) = line.strip_prefix("--").and_then(|line| line.split_once(' ')) {
            settings.push((format!("--{}", setting.trim()), words.to_owned()));
        } else if line.starts_with("-h") {
            settings.push(("-h".into(), line.into()));
        } else if let Some((_, words)) = settings.last_mut() {
            *words += " ";
            words.push_str(line);
        }
    }
    settings.retain(|(_, words)| words.contains('>'));
    settings
}

/// The limits that are told, as they are told.
fn limits(words: &str) -> Option<(&str, &str)> {
    words.match_indices("from ").find_map(|(place, from)| {
        let (least, rest) = words[place + from.len()..].split_once(" to ")?;
        let most = rest.split([' ', ';', '[']).next()?.trim_end_matches(['.', ',', ':']);
        let is_number = |text: &str| text.starts_with(|digit: char| digit.is_ascii_digit());
        (is_number(least) && !least.contains(' ') && is_number(most)).then_some((least, most))
    })
}

/// The number that is so much more than one that is told.
fn beyond(told: &str, more: i8) -> String {
    let digits = told.replace(',', "");
    match digits.parse::<i128>() {
        Ok(number) => (number + i128::from(more)).to_string(),
        Err(_) => (digits.parse::<f64>().expect("a number") + f64::from(more)).to_string(),
    }
}

#[test]
fn help_tells_the_limits_of_each_number_and_an_error_tells_them_again_and_what_was_given() {
    let mut numbers = 0;
    for name in names() {
        let help = String::from_utf8(run(&name, &["--help"]).stdout).expect("text");
        for (setting, words) in settings(&help) {
            if ["<ADDRESS>", "<TIMERS>"].iter().any(|other| words.starts_with(other)) {
                continue;
            }
            let (least, most) =
                limits(&words).unwrap_or_else(|| panic!("{name} {setting}: no limits in `{words}`"));
            for given in [beyond(least, -1), beyond(most, 1), "many".to_owned()] {
                let refused = run(&name, &[&setting, &given]);
                let error = String::from_utf8_lossy(&refused.stderr).replace('\n', " ");
                assert_eq!(refused.status.code(), Some(2), "{name} {setting} {given}: {error}");
                let expected = format!("from {least} to {most}, got {given}");
                assert!(error.contains(&expected), "{name} {setting}: `{expected}` is not in `{error}`");
            }
            numbers += 1;
        }
    }
    assert!(numbers > 30, "only {numbers} settings were found");
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    for name in names() {
        let help = String::from_utf8(run(&name, &["--help"]).stdout).expect("text");
        let widest = help.lines().max_by_key(|line| line.chars().count()).expect("help");
        assert!(widest.chars().count() <= 80, "{name}: `{widest}`");
    }
}
