//! `formats/image.py`: files mapped behind each other, and the guard against pages that vanish.
//!
//! A file that becomes shorter under a map, or whose device fails, has no bytes for the pages that
//! are gone, and the kernel sends a SIGBUS that ends the process without a word. The handler here
//! puts zeros in place of such a page and of all that its file has after it, in one map, since the
//! system allows a process only so many; `torn_at` tells that it happened.
//!
//! Only pages of maps made here are looked after. At any other address, or where the signal was
//! sent by somebody, it goes where it went before: to a handler that the program had, be it one of
//! Python's or of C (`faulthandler`), or it ends the process. So it does when there is no room for
//! the zeros. A handler that the program sets later gets all, until another map is made.
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

/// Memory that takes no room before it is written to.
const NOTHING: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// A stretch of address space that is looked after.
///
/// Nodes are linked once and never freed, so that the handler can go through them at any moment.
/// One whose stretch is gone has size 0 and is used again.
struct Guarded {
    next: *const Guarded,
    start: AtomicUsize,
    size: AtomicUsize,
    /// How far into it the pages of each file end, ascending.
    stops: AtomicPtr<Vec<usize>>,
    /// How far into it a page was that could not be read; -1 where all could.
    torn_at: AtomicI64,
}

// SAFETY: `next` is written before a node is published and never after; the rest is atomic.
unsafe impl Sync for Guarded {}
// SAFETY: as above; nothing belongs to a thread.
unsafe impl Send for Guarded {}

static GUARDED: AtomicPtr<Guarded> = AtomicPtr::new(ptr::null_mut());

/// The action that was there before the handler, while it has not been handed on to.
static BEFORE: AtomicPtr<sigaction> = AtomicPtr::new(ptr::null_mut());

/// Held by whoever changes the two above.
static CHANGING: Mutex<()> = Mutex::new(());

impl Guarded {
    /// Iterate over all nodes; a signal handler may do so.
    fn all() -> impl Iterator<Item = &'static Self> {
        let mut at: *const Self = GUARDED.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: published nodes are initialized and live as long as the process.
            let node = unsafe { at.as_ref() }?;
            at = node.next;
            Some(node)
        })
    }

    /// Look after a stretch from now on.
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
                torn_at: AtomicI64::new(-1),
            }));
            GUARDED.store(node, Ordering::Release);
            node
        });
        node.torn_at.store(-1, Ordering::Relaxed);
        node.stops.store(stops, Ordering::Relaxed);
        node.start.store(start, Ordering::Relaxed);
        node.size.store(size, Ordering::Release);
        Ok(node)
    }

    /// Look after the stretch no longer.
    fn end(&self) {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        self.size.store(0, Ordering::Release);
        let stops = self.stops.swap(ptr::null_mut(), Ordering::AcqRel);
        if !stops.is_null() {
            // SAFETY: it comes from `Box::into_raw` in `begin`, and is taken out once. No handler
            // reads it: that takes a fault in this stretch, which nobody has any more.
            drop(unsafe { Box::from_raw(stops) });
        }
    }

    /// Put zeros in place of a page and of all that its file has after it; return whether there
    /// was room. Runs in the signal handler.
    fn put_zeros(&self, at: usize) -> bool {
        // SAFETY: the stops of a stretch are set before its size and freed after its last reader
        // is gone; the thread that faulted is one.
        let Some(stops) = (unsafe { self.stops.load(Ordering::Acquire).as_ref() }) else {
            return false;
        };
        let at = at - at % page_size();
        let Some(&stop) = stops.get(stops.partition_point(|&stop| stop <= at)) else {
            return false;
        };
        // Other threads see the zeros as soon as they are there.
        self.torn_at.store(i64::try_from(at).unwrap_or(i64::MAX), Ordering::Release);
        let start = self.start.load(Ordering::Relaxed) + at;
        let flags = NOTHING | libc::MAP_FIXED;
        // SAFETY: [start + at, start + stop) lies inside the stretch, which is ours. mmap is a
        // plain call of the system, which a handler may make.
        let found =
            unsafe { libc::mmap(start as *mut c_void, stop - at, libc::PROT_READ, flags, -1, 0) };
        found != libc::MAP_FAILED
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions, and this name is known on every system with mmap.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Have the handler get SIGBUS, if it does not.
fn install() -> io::Result<()> {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus_error;
    let mut now = MaybeUninit::<sigaction>::uninit();
    // SAFETY: the action that is there is written to `now`, and none is set.
    if unsafe { sigaction(libc::SIGBUS, ptr::null(), now.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigaction has filled it.
    let now = unsafe { now.assume_init() };
    if now.sa_sigaction == handler as usize {
        return Ok(());
    }
    // What was there before is left allocated: a handler may be reading it.
    BEFORE.store(Box::into_raw(Box::new(now)), Ordering::Release);
    // SAFETY: all zeros are a valid action: no flags, no signals masked.
    let mut action: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and calls only what is safe
    // in a handler.
    if unsafe { sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Leave the signal to whom it went before; the second time it ends the process.
fn hand_on() {
    let before = BEFORE.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: all zeros are the default action.
    let default: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: what was stored comes from `Box::into_raw`, and is never freed.
    let action = unsafe { before.as_ref() }.unwrap_or(&default);
    // SAFETY: the action was the system's own, or is the default one.
    unsafe { sigaction(libc::SIGBUS, action, ptr::null_mut()) };
}

extern "C" fn on_bus_error(_number: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo_t, as SA_SIGINFO asks for.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code <= 0 {
        hand_on();
        // What was sent does not come again by itself.
        // SAFETY: raise has no preconditions, and may be called in a handler.
        unsafe { libc::raise(libc::SIGBUS) };
        return;
    }
    // SAFETY: the place of errno is valid for the thread; who was interrupted must not see another.
    let number = unsafe { *libc::__errno_location() };
    let guarded = Guarded::all().find(|node| {
        let size = node.size.load(Ordering::Acquire);
        address.wrapping_sub(node.start.load(Ordering::Relaxed)) < size
    });
    let is_done =
        guarded.is_some_and(|node| node.put_zeros(address - node.start.load(Ordering::Relaxed)));
    if !is_done {
        // What could not be read is read again now.
        hand_on();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number };
}

fn failed(what: &str) -> PyErr {
    let number = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    PyOSError::new_err((number, "cannot be mapped", what.to_owned()))
}

/// Files mapped behind each other; see `_native.pyi`.
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
        // SAFETY: it is for the system to choose the address, so nothing that is there is lost.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, NOTHING, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(failed("a log of this size"));
        }
        match Guarded::begin(start as usize, size, stops) {
            Ok(guarded) => {
                Ok(Self { guarded, start: start as usize, size, is_used: AtomicBool::new(false) })
            }
            Err(error) => {
                // SAFETY: the stretch was just mapped, and nobody has seen it.
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
        // Whoever has a view may read while this maps.
        if self.is_used.load(Ordering::Acquire) {
            return Err(PyValueError::new_err("the maps are in use"));
        }
        let file = file.opened().ok_or_else(|| PyValueError::new_err("the file is closed"))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let address = (self.start + at) as *mut c_void;
        // SAFETY: [at, at + size) up to the end of its page lies inside the stretch, which is ours
        // and of which nobody has a view. Reading past the end of a file that became shorter is a
        // SIGBUS, which `on_bus_error` answers.
        let found =
            unsafe { libc::mmap(address, size, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
        if found == libc::MAP_FAILED { Err(failed(path)) } else { Ok(()) }
    }

    #[getter]
    fn torn_at(&self) -> i64 {
        self.guarded.torn_at.load(Ordering::Acquire)
    }

    /// Lend the bytes, read-only; the object lives as long as the view.
    ///
    /// # Safety
    ///
    /// `view` is what Python passes.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        this.is_used.store(true, Ordering::Release);
        let size = isize::try_from(this.size)
            .map_err(|_| PyBufferError::new_err("the maps are too long for a buffer"))?;
        // SAFETY: the stretch is mapped until `drop`, which the reference in the view keeps off.
        // The bytes may change under a reader, as those of every mapped file may: what is read of
        // them is checked where it is used, and they are never written to here.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), this.start as *mut c_void, size, 1, flags)
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        self.guarded.end();
        // SAFETY: the stretch was mapped in `new`, and the last view of it is gone.
        unsafe { libc::munmap(self.start as *mut c_void, self.size) };
    }
}
