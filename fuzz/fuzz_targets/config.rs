//! The configuration: any text as its file, and lines behind a NUL as flags.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use watchtower::config::{Config, load_text};

fn env(name: &str) -> Option<String> {
    match name {
        "A" => Some("1".to_owned()),
        "EMPTY" => Some(String::new()),
        "ODD" => Some("a: [b, \"c\n".to_owned()),
        _ => None,
    }
}

fuzz_target!(|text: &str| {
    // Secrets come out of files and the environment, which is not for a fuzzer to read.
    if text.contains("file") {
        return;
    }
    let (text, flags) = text.split_once('\0').unwrap_or((text, ""));
    let flags: Vec<String> = flags.lines().map(str::to_owned).collect();
    let path = Path::new("watchtower.yaml");
    match load_text(path, text.to_owned(), &flags, &env) {
        Ok(config) => {
            drop(config.warnings());
            // What it prints, it reads; secrets are not printed, and so are not the same.
            let printed = config.to_yaml();
            if !printed.contains("***") && !printed.contains('$') {
                let again = load_text(path, printed, &[], &|_| None);
                assert_eq!(again.expect("it was printed"), config);
            }
        }
        Err(faults) => {
            assert!(faults.iter().next().is_some());
            for fault in faults.iter() {
                assert!(!fault.to_string().is_empty());
            }
        }
    }
    drop(Config::default());
});
