//! config/docker: no container is built here, but what the files say is held against the program.

use std::process::Command;

const COMPOSE: &str = include_str!("../../config/docker/compose.yaml");
const DOCKERFILE: &str = include_str!("../../config/docker/Dockerfile");

fn check(sets: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_watchtower"))
        .args(["--config", "/dev/null"])
        .args(sets.iter().flat_map(|set| ["--set", set]))
        .arg("check")
        .env("CLICKHOUSE_PASSWORD", "x")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{sets:?}: {told}");
    told
}

/// Case: the settings of the compose file and of the image.
/// Holds: the program takes them, and the services that they name are there.
#[test]
fn settings_of_the_containers_are_good() {
    let compose: serde_yaml::Value = serde_yaml::from_str(COMPOSE).unwrap();
    let services = compose["services"].as_mapping().unwrap();
    let names: Vec<_> = services.keys().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, ["watchtower", "redis", "clickhouse"]);
    let command = services["watchtower"]["command"].as_sequence().unwrap();
    let words: Vec<_> = command.iter().map(|word| word.as_str().unwrap()).collect();
    let (settings, [last]) = words.split_at(words.len() - 1) else {
        panic!("{words:?}");
    };
    assert_eq!(*last, "serve");
    let sets: Vec<String> = settings
        .chunks(2)
        .map(|pair| {
            assert_eq!(pair[0], "--set");
            pair[1].to_owned()
        })
        .collect();
    check(&sets);
    for (key, service) in [("queue.redis.url", "redis"), ("store.url", "clickhouse")] {
        let set = sets.iter().find(|set| set.starts_with(key)).unwrap();
        assert!(set.contains(&format!("//{service}:")), "{set}");
    }
    let entrypoint = DOCKERFILE
        .lines()
        .find_map(|line| line.strip_prefix("ENTRYPOINT "))
        .unwrap();
    let words: Vec<String> = serde_json::from_str(entrypoint).unwrap();
    let sets: Vec<String> = words
        .iter()
        .filter(|word| word.contains('='))
        .cloned()
        .collect();
    assert_eq!(sets.len(), 3);
    check(&sets);
}

/// Case: the Dockerfile's lines.
/// Holds: each begins with an instruction, or goes on with the one before; what is copied exists.
#[test]
fn the_dockerfile_is_one() {
    let mut goes_on = false;
    for line in DOCKERFILE.lines().filter(|line| !line.is_empty()) {
        let word = line.split(' ').next().unwrap();
        let known = [
            "#",
            "FROM",
            "WORKDIR",
            "COPY",
            "RUN",
            "USER",
            "ENV",
            "VOLUME",
            "EXPOSE",
            "STOPSIGNAL",
            "ENTRYPOINT",
            "CMD",
        ];
        assert!(goes_on || known.contains(&word), "{line}");
        goes_on = line.ends_with('\\');
        if let ["COPY", from, _] = line.split(' ').collect::<Vec<_>>().as_slice() {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(from);
            assert!(path.exists(), "{line}");
        }
    }
}
