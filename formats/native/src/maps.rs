//! Bindings for `formats/files/image.py`: files mapped one after the other, and the SIGBUS guard.
//!
//! If a mapped file is truncated or its device fails, some of its pages have no bytes. Reading them
//! raises SIGBUS, which ends the process without a message. The handler here replaces such a page
//! and the rest of its file with zeros, in a single map because the system limits the number of
//! maps of a process; `lost_at` reports the page.
//!
//! Only maps made here are guarded. A SIGBUS at any other address, or sent by a process, goes to
//! the handler that was installed before (one of Python's or of C's, such as `faulthandler`), or
//! ends the process. The same happens if the zeros cannot be mapped. A handler that the program
//! installs later gets every SIGBUS, until another map is made.
//!
//! This is the only module with unsafe code.
//!
//! Source: mmap(2), sigaction(2), signal-safety(7), Linux.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, c_void, sigaction, siginfo_t};
use pyo3::exceptions::{PyBufferError, PyOSError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::file::File;

/// Flags of a map that takes no memory until it is written to.
const NOTHING: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// A guarded range of address space.
///
/// Nodes are linked once and never freed, so that the handler can walk them at any time. A node
/// whose range is gone has size 0 and is reused.
struct Guarded {
    next: *const Guarded,
    start: AtomicUsize,
    size: AtomicUsize,
    /// Offsets in the range at which the pages of each file end, ascending.
    stops: AtomicPtr<Vec<usize>>,
    /// Offset in the range of a page that could not be read; -1 if there is none.
    lost_at: AtomicI64,
}

// SAFETY: `next` is written before a node is published and never after; the rest is atomic.
unsafe impl Sync for Guarded {}
// SAFETY: as above; no field belongs to a thread.
unsafe impl Send for Guarded {}

static GUARDED: AtomicPtr<Guarded> = AtomicPtr::new(ptr::null_mut());

/// Action that was installed before the handler, until a signal is handed on to it.
static BEFORE: AtomicPtr<sigaction> = AtomicPtr::new(ptr::null_mut());

/// Lock for changes of the two statics above.
static CHANGING: Mutex<()> = Mutex::new(());

impl Guarded {
    /// Returns an iterator over all nodes; a signal handler may use it.
    fn all() -> impl Iterator<Item = &'static Self> {
        let mut at: *const Self = GUARDED.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: published nodes are initialized and live as long as the process.
            let node = unsafe { at.as_ref() }?;
            at = node.next;
            Some(node)
        })
    }

    /// Starts to guard a range.
    fn begin(start: usize, size: usize, stops: Vec<usize>) -> io::Result<&'static Self> {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        install()?;
        let stops = Box::into_raw(Box::new(stops));
        let free = Self::all().find(|node| node.size.load(Ordering::Acquire) == 0);
        let node = free.unwrap_or_else(|| {
            let node = Box::leak(Box::new(Self {
                next: GUARDED.load(Ordering::Acquire),
                start: AtomicUsize::new(0),
                size: AtomicUsize::new(0),
                stops: AtomicPtr::new(ptr::null_mut()),
                lost_at: AtomicI64::new(-1),
            }));
            GUARDED.store(node, Ordering::Release);
            node
        });
        node.lost_at.store(-1, Ordering::Relaxed);
        node.stops.store(stops, Ordering::Relaxed);
        node.start.store(start, Ordering::Relaxed);
        node.size.store(size, Ordering::Release);
        Ok(node)
    }

    /// Stops guarding the range.
    fn end(&self) {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        self.size.store(0, Ordering::Release);
        let stops = self.stops.swap(ptr::null_mut(), Ordering::AcqRel);
        if !stops.is_null() {
            // SAFETY: the pointer comes from `Box::into_raw` in `begin`, and is taken out once. No
            // handler reads it: that needs a fault in this range, which no one uses any more.
            drop(unsafe { Box::from_raw(stops) });
        }
    }

    /// Replaces a page and the rest of its file with zeros; returns true if they could be mapped.
    ///
    /// Runs in the signal handler.
    fn put_zeros(&self, at: usize) -> bool {
        // SAFETY: the stops of a range are set before its size and freed after its last reader is
        // gone; the thread that faulted is a reader.
        let Some(stops) = (unsafe { self.stops.load(Ordering::Acquire).as_ref() }) else {
            return false;
        };
        let at = at - at % page_size();
        let Some(&stop) = stops.get(stops.partition_point(|&stop| stop <= at)) else {
            return false;
        };
        // Set first: other threads see the zeros as soon as they are mapped.
        self.lost_at.store(i64::try_from(at).unwrap_or(i64::MAX), Ordering::Release);
        let start = self.start.load(Ordering::Relaxed) + at;
        let flags = NOTHING | libc::MAP_FIXED;
        // SAFETY: [start + at, start + stop) lies inside the range, which is ours. mmap is a plain
        // system call, which a handler may make.
        let found =
            unsafe { libc::mmap(start as *mut c_void, stop - at, libc::PROT_READ, flags, -1, 0) };
        found != libc::MAP_FAILED
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions, and this name is known on every system with mmap.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Installs the handler of SIGBUS, unless it is installed already.
fn install() -> io::Result<()> {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus_error;
    let mut now = MaybeUninit::<sigaction>::uninit();
    // SAFETY: the current action is written to `now`, and none is set.
    if unsafe { sigaction(libc::SIGBUS, ptr::null(), now.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigaction has filled it.
    let now = unsafe { now.assume_init() };
    if now.sa_sigaction == handler as usize {
        return Ok(());
    }
    // The action stored here before is never freed: a handler may be reading it.
    BEFORE.store(Box::into_raw(Box::new(now)), Ordering::Release);
    // SAFETY: all zeros are a valid action: no flags, no signals masked.
    let mut action: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and calls only functions that
    // are safe in a handler.
    if unsafe { sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Restores the action from before the handler; the second time, the default, which ends the
/// process.
fn hand_on() {
    let before = BEFORE.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: all zeros are the default action.
    let default: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: a stored pointer comes from `Box::into_raw`, and is never freed.
    let action = unsafe { before.as_ref() }.unwrap_or(&default);
    // SAFETY: the action was the system's own, or is the default one.
    unsafe { sigaction(libc::SIGBUS, action, ptr::null_mut()) };
}

extern "C" fn on_bus_error(_number: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo_t, as SA_SIGINFO asks for.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code <= 0 {
        hand_on();
        // Unlike a fault, a signal that was sent does not come again by itself.
        // SAFETY: raise has no preconditions, and may be called in a handler.
        unsafe { libc::raise(libc::SIGBUS) };
        return;
    }
    // SAFETY: the address of errno is valid for the thread. The code that was interrupted must not
    // see errno change.
    let number = unsafe { *libc::__errno_location() };
    let guarded = Guarded::all().find(|node| {
        let size = node.size.load(Ordering::Acquire);
        address.wrapping_sub(node.start.load(Ordering::Relaxed)) < size
    });
    let is_done =
        guarded.is_some_and(|node| node.put_zeros(address - node.start.load(Ordering::Relaxed)));
    if !is_done {
        // On return the read is repeated and raises the signal again.
        hand_on();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number };
}

fn failed(what: &str) -> PyErr {
    let number = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    PyOSError::new_err((number, "cannot be mapped", what.to_owned()))
}

/// Files mapped one after the other; see `_native.pyi`.
#[pyclass(frozen)]
pub struct Maps {
    guarded: &'static Guarded,
    start: usize,
    size: usize,
    is_used: AtomicBool,
}

#[pymethods]
impl Maps {
    #[new]
    fn new(stops: Vec<usize>) -> PyResult<Self> {
        let size = stops.last().copied().unwrap_or(0);
        if size == 0 || !stops.is_sorted() || stops.iter().any(|stop| stop % page_size() != 0) {
            return Err(PyValueError::new_err("files end at pages, one after the other"));
        }
        // SAFETY: the system chooses the address, so no existing map is replaced.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, NOTHING, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(failed("a log of this size"));
        }
        match Guarded::begin(start as usize, size, stops) {
            Ok(guarded) => {
                Ok(Self { guarded, start: start as usize, size, is_used: AtomicBool::new(false) })
            }
            Err(error) => {
                // SAFETY: the range was just mapped, and no one has seen it.
                unsafe { libc::munmap(start, size) };
                Err(error.into())
            }
        }
    }

    fn map(&self, file: &File, path: &str, at: usize, size: usize) -> PyResult<()> {
        let is_inside = at.checked_add(size).is_some_and(|stop| stop <= self.size);
        if size == 0 || at % page_size() != 0 || !is_inside {
            return Err(PyValueError::new_err("a file lies at a page, inside of the maps"));
        }
        // The owner of a view may be reading while this maps.
        if self.is_used.load(Ordering::Acquire) {
            return Err(PyValueError::new_err("the maps are in use"));
        }
        let file = file.opened().ok_or_else(|| PyValueError::new_err("the file is closed"))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let address = (self.start + at) as *mut c_void;
        // SAFETY: [at, at + size) up to the end of its page lies inside the range, which is ours
        // and of which there is no view. A read past the end of a truncated file raises SIGBUS,
        // which `on_bus_error` handles.
        let found =
            unsafe { libc::mmap(address, size, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
        if found == libc::MAP_FAILED { Err(failed(path)) } else { Ok(()) }
    }

    #[getter]
    fn lost_at(&self) -> i64 {
        self.guarded.lost_at.load(Ordering::Acquire)
    }

    /// Lends the bytes, read-only; the object lives as long as the view.
    ///
    /// # Safety
    ///
    /// `view` must be the structure that Python passes.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        this.is_used.store(true, Ordering::Release);
        let size = isize::try_from(this.size)
            .map_err(|_| PyBufferError::new_err("the maps are too long for a buffer"))?;
        // SAFETY: the range is mapped until `drop`, which the reference in the view prevents. The
        // bytes may change under a reader, as in every mapped file: they are checked where they are
        // used, and never written to here.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), this.start as *mut c_void, size, 1, flags)
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        self.guarded.end();
        // SAFETY: the range was mapped in `new`, and its last view is gone.
        unsafe { libc::munmap(self.start as *mut c_void, self.size) };
    }
}
