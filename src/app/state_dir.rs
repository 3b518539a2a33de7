//! The state directory: made if missing, and readable by its owner only.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};

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
    }
}
