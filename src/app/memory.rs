//! The allocator, set so that memory goes back to the system.

/// Has glibc's allocator return what is freed. As it comes, it makes an arena for each thread and, once
/// a large block was freed, takes blocks of that size from them: after bursts of large requests a
/// daemon stayed at 240 MiB and more, with this at 80. Other allocators, mimalloc among them, kept more.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "calls a C function")]
pub(super) fn give_back() {
    const ARENAS: libc::c_int = 2;
    /// Bytes from which a block is the system's own, always.
    const MAPPED_FROM: libc::c_int = 256 << 10;
    // SAFETY: it is called before there is a second thread, with parameters that glibc documents.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
    }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back() {}
