//! The card's library: finding the file that was built, and laying it out under the driver's name.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use super::LaunchError;

/// What cargo names the library.
pub(super) const FILE: &str = "liboomguard_sim.so";

/// Names the library's file outright.
pub(super) const VARIABLE: &str = "OOMGUARD_SIM_LIBRARY";

const DRIVER: &str = "libcuda.so";
const DRIVER_1: &str = "libcuda.so.1";

/// Folders laid for libraries that have since been built anew are cleared away when they are this old.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// Finds the card's library: the file that `OOMGUARD_SIM_LIBRARY` names, or else the one that cargo built next to this
/// program.
///
/// # Errors
/// [`LaunchError::LibraryNotFound`], with every place it was looked for in.
pub fn find_library() -> Result<PathBuf, LaunchError> {
    let looked = match std::env::var_os(VARIABLE) {
        Some(named) => vec![PathBuf::from(named)],
        None => std::env::current_exe().map(|program| beside(&program)).unwrap_or_default(),
    };
    match looked.iter().find(|path| path.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(LaunchError::LibraryNotFound { looked }),
    }
}

/// Where cargo puts the library, as seen from a program of the same build: programs lie in the profile's folder, examples
/// and tests in folders of it, and dependencies' libraries always in `deps`.
fn beside(program: &Path) -> Vec<PathBuf> {
    let Some(folder) = program.parent() else { return Vec::new() };
    let above = folder.parent().unwrap_or(folder);
    // `deps` first: the copy above it is only made when the package itself is what was asked for, and may be old.
    let deps = if folder.ends_with("deps") { folder.to_owned() } else { folder.join("deps") };
    [deps, above.join("deps"), folder.to_owned(), above.to_owned()].map(|folder| folder.join(FILE)).into()
}

/// Lays the library out as `libcuda.so` and `libcuda.so.1` and returns the folder. Safe to do from many processes at once;
/// done once for each build of the library.
///
/// # Errors
/// [`LaunchError::Install`] where neither the build's folder nor the system's temporary one can be written.
pub fn install(library: &Path) -> Result<PathBuf, LaunchError> {
    let folder = library.parent().unwrap_or(Path::new("."));
    let build = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    let first = build.join("simulated-card");
    if let Ok(folder) = lay(library, &first) {
        return Ok(folder);
    }
    // SAFETY: the call has no precondition and cannot fail.
    let user = unsafe { libc::getuid() };
    let second = std::env::temp_dir().join(format!("oomguard-sim-{user}"));
    lay(library, &second).map_err(|source| LaunchError::Install { folder: second, source })
}

/// Lays the library into a folder of `parent` that is named after this build of it.
fn lay(library: &Path, parent: &Path) -> io::Result<PathBuf> {
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    let facts = fs::metadata(library)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    // SAFETY: the call has no precondition and cannot fail.
    if fs::metadata(parent)?.uid() != unsafe { libc::getuid() } {
        // A folder that somebody else made holds what somebody else likes.
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    let build = format!("{:x}-{:x}{:08x}-{:x}", facts.len(), facts.mtime(), facts.mtime_nsec(), facts.ino());
    let folder = parent.join(build);
    if folder.join(DRIVER_1).exists() {
        return Ok(folder);
    }
    let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
    let draft = parent.join(format!(".draft-{}-{attempt}", std::process::id()));
    let _ = fs::remove_dir_all(&draft);
    fs::create_dir(&draft)?;
    fs::copy(library, draft.join(DRIVER))?;
    symlink(DRIVER, draft.join(DRIVER_1))?;
    match fs::rename(&draft, &folder) {
        Ok(()) => clear_stale(parent, &folder),
        // Another process was faster, with the same content.
        Err(_) if folder.join(DRIVER_1).exists() => fs::remove_dir_all(&draft)?,
        Err(error) => {
            let _ = fs::remove_dir_all(&draft);
            return Err(error);
        }
    }
    Ok(folder)
}

/// Clears away what earlier builds left; what cannot be cleared stays.
fn clear_stale(parent: &Path, keep: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path != keep) {
        let changed = fs::metadata(&path).and_then(|facts| facts.modified());
        let age = changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok());
        if age.is_some_and(|age| age > STALE) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_looked_for_where_cargo_puts_it() {
        let first = |program: &str| beside(Path::new(program))[..2].to_vec();
        let built = PathBuf::from("/t/release/deps/liboomguard_sim.so");
        assert_eq!(first("/t/release/oomguard-sim")[0], built);
        assert_eq!(first("/t/release/deps/test-1234")[0], built);
        assert_eq!(first("/t/release/examples/leak")[1], built);
    }

    #[test]
    fn many_at_once_lay_one_folder() {
        let parent = std::env::temp_dir().join(format!("oomguard-sim-test-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        let library = parent.join(FILE);
        fs::write(&library, b"not a library, and it need not be one").unwrap();
        let folders: Vec<PathBuf> = std::thread::scope(|scope| {
            let lay_one = || install(&library).unwrap();
            let all: Vec<_> = (0..8).map(|_| scope.spawn(lay_one)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(folders.iter().all(|folder| *folder == folders[0]));
        assert_eq!(fs::read(folders[0].join(DRIVER_1)).unwrap(), fs::read(&library).unwrap());
        let left = fs::read_dir(folders[0].parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "no drafts are left");
        fs::remove_dir_all(parent).unwrap();
    }
}
