//! Finds `libchdb.so` and calls into it. One of the two places with unsafe code.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::Error;

/// The npm package that holds the library for this machine.
#[cfg(target_arch = "x86_64")]
pub(super) const NPM_PACKAGE: &str = "@chdb/lib-linux-x64-gnu";
/// The npm package that holds the library for this machine.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const NPM_PACKAGE: &str = "@chdb/lib-linux-arm64-gnu";

/// How every program and library of Linux begins.
const ELF: &[u8; 4] = b"\x7fELF";
/// Names the library, over every other place but the configuration's.
pub(super) const VARIABLE: &str = "WATCHTOWER_ENGINE_LIBRARY";

/// Finds the library: where the configuration says, else where the environment says, else beside the
/// program, where the package puts it, and where `scripts/quickstart` puts it.
pub(super) fn find(configured: Option<&Path>) -> Result<PathBuf, Error> {
    let named = configured
        .map(|path| ("engine.library", path.to_owned()))
        .or_else(|| {
            let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
            Some((VARIABLE, path.into()))
        });
    if let Some((key, path)) = named {
        look_at(key, &path)?;
        let mut start = [0; ELF.len()];
        let read = std::fs::File::open(&path).and_then(|mut file| file.read_exact(&mut start));
        return match read {
            Ok(()) if start == *ELF => Ok(path),
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => {
                let fault = format!("cannot be read: {error}");
                Err(Error::Unusable { key, path, fault })
            }
            _ => {
                let fault = "is no library of Linux".to_owned();
                Err(Error::Unusable { key, path, fault })
            }
        };
    }
    let searched = places(std::env::current_exe().ok().as_deref());
    match searched.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(Error::NoLibrary { searched }),
    }
}

/// Whether what is to be run or loaded is a file.
pub(super) fn look_at(key: &'static str, path: &Path) -> Result<(), Error> {
    let unusable = |fault: String| Error::Unusable {
        key,
        path: path.to_owned(),
        fault,
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::Missing {
                key,
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(unusable(format!("cannot be looked at: {error}"))),
    };
    if !metadata.is_file() {
        return Err(unusable("is not a file; write its whole path".to_owned()));
    }
    Ok(())
}

/// Where the library may be for a program at this place.
fn places(program: Option<&Path>) -> Vec<PathBuf> {
    let in_npm = |dir: &Path| {
        dir.join(".engine/node_modules")
            .join(NPM_PACKAGE)
            .join("libchdb.so")
    };
    let dirs: Vec<&Path> = program
        .into_iter()
        .flat_map(|program| program.ancestors().skip(1))
        .collect();
    let beside = dirs.first().map(|dir| dir.join("libchdb.so"));
    let mut places: Vec<PathBuf> = beside.into_iter().collect();
    places.push("/usr/lib/watchtower/libchdb.so".into());
    places.push(in_npm(Path::new("")));
    places.extend(dirs.into_iter().map(in_npm));
    places
}

/// Runs ClickHouse with a command line, in this process and on this thread, until it ends. Call it
/// once in the life of a process.
#[expect(
    unsafe_code,
    reason = "calls a C function of a library found at run time"
)]
pub(super) fn run(library: &Path, arguments: Vec<CString>) -> Result<(), Error> {
    type QueryCmdline = unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut c_void;

    let failed = |source| Error::Load {
        path: library.to_owned(),
        source,
    };
    // SAFETY: the library is the one that the owner of this machine installed to be run; its
    // initializers run on the main thread, before anything else of it is called.
    let loaded = unsafe { libloading::Library::new(library) }.map_err(failed)?;
    // ClickHouse's threads and its handlers at exit outlive the call, so it is never unloaded.
    let loaded = Box::leak(Box::new(loaded));
    // SAFETY: the symbol has this signature in chdb.h of every release since 2.0.
    let query_cmdline =
        unsafe { loaded.get::<QueryCmdline>(b"chdb_query_cmdline\0") }.map_err(failed)?;

    // Leaked likewise: ClickHouse may keep pointers into its command line.
    let mut argv: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
    let argc = c_int::try_from(argv.len()).expect("a handful of arguments");
    argv.push(std::ptr::null_mut());
    let argv = Box::leak(argv.into_boxed_slice());
    // SAFETY: `argv` holds `argc` NUL-terminated strings and then a null pointer, as for `main`, and
    // lives until the process ends. What comes back points to the library's own result, which
    // nobody reads; the process ends soon.
    unsafe { query_cmdline(argc, argv.as_mut_ptr()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_explained() {
        let error = find(Some(Path::new("/nowhere/libchdb.so"))).unwrap_err();
        let text = error.to_string();
        for part in [
            "`engine.library` names /nowhere/libchdb.so, which is not there; correct it",
            "./scripts/quickstart",
            "store.url",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let error = find(Some(Path::new("/etc"))).unwrap_err().to_string();
        assert_eq!(
            error,
            "`engine.library` names /etc, which is not a file; write its whole path"
        );
        let error = find(Some(Path::new("/etc/passwd")))
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("which is no library of Linux"), "{error}");
        let searched = places(Some(Path::new("/opt/wt/bin/watchtower")));
        let text = Error::NoLibrary { searched }.to_string();
        for part in [
            "/opt/wt/bin/libchdb.so, /usr/lib/watchtower/libchdb.so, .engine/",
            "/opt/wt/.engine/node_modules/@chdb/lib-linux-",
            "./scripts/quickstart",
            "`engine.library`",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
