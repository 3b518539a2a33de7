//! The state directory: made if missing, and readable by its owner only.

use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::{Access, AtFlags};

use crate::state_file::is_no_room;

/// Files in it that earlier versions left readable for others.
const FILES: [&str; 5] = ["id-floor", "node", "worker", "resends.log", "resends.old"];

/// Makes the directory, or says what is wrong with the one there.
pub(super) fn prepare(dir: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| {
            format!(
                "could not make the directory {} (`state_dir`)",
                dir.display()
            )
        })?;
    let metadata =
        std::fs::metadata(dir).with_context(|| format!("could not look at {}", dir.display()))?;
    let (owner, me) = (metadata.uid(), rustix::process::geteuid().as_raw());
    let probe = dir.join(".writable");
    let written = std::fs::write(&probe, b"");
    if let Err(error) = written
        && !is_no_room(&error)
    {
        bail!(
            "cannot write in {} (`state_dir`): {error}; it belongs to user {owner} and this is user {me}; \
             `chown -R {me} {}` mends that",
            dir.display(),
            dir.display()
        );
    }
    std::fs::remove_file(&probe).ok();
    if owner == me && metadata.mode() & 0o077 != 0 {
        // Made by hand with an open umask: logs are nobody else's business.
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
            .with_context(|| format!("could not close {} to other users", dir.display()))?;
    }
    for name in FILES {
        // A missing one is made with the right mode.
        std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o600)).ok();
    }
    Ok(())
}

/// Looks whether the directory can be used, without making or changing anything.
///
/// # Errors
/// What is wrong with it, and what would mend it.
pub(super) fn inspect(dir: &Path) -> Result<(), String> {
    let me = rustix::process::geteuid().as_raw();
    // Where it is missing it will be made, in the nearest directory that is there.
    let mut there = dir;
    let metadata = loop {
        match std::fs::metadata(there) {
            Ok(metadata) => break metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                there = match there.parent() {
                    Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
                    Some(parent) => parent,
                    None => return Err(format!("{}: {error}", dir.display())),
                };
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(format!(
                    "{} is below a file; name another directory",
                    dir.display()
                ));
            }
            Err(error) => return Err(format!("cannot look at {}: {error}", there.display())),
        }
    };
    let place = there.display();
    if !metadata.is_dir() {
        return Err(format!(
            "{place} is not a directory; name another, or move it away"
        ));
    }
    // With the rights the process acts with, not those of whoever called it.
    let rights = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(rustix::fs::CWD, there, rights, AtFlags::EACCESS).map_err(|error| {
        let owner = metadata.uid();
        format!(
            "cannot write in {place}: {error}; it belongs to user {owner} and this is user {me}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_made_and_closed_to_others() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a/b");
        prepare(&dir).unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        prepare(&dir).unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        let node = dir.join("node");
        std::fs::write(&node, "7").unwrap();
        std::fs::set_permissions(&node, std::fs::Permissions::from_mode(0o644)).unwrap();
        prepare(&dir).unwrap();
        assert_eq!(std::fs::metadata(&node).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_in_its_place_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let error = format!("{:#}", prepare(&file).unwrap_err());
        assert!(error.contains("file (`state_dir`)"), "{error}");
        let error = inspect(&file).unwrap_err();
        assert!(error.contains("file is not a directory"), "{error}");
        let error = inspect(&file.join("below")).unwrap_err();
        assert!(error.contains("below is below a file"), "{error}");
    }

    #[test]
    fn looking_makes_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a/b");
        inspect(&dir).unwrap();
        assert!(!parent.path().join("a").exists());
        // There nobody may write, whoever it is.
        assert!(inspect(Path::new("/proc/self/state")).is_err());
    }
}
