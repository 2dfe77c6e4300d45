//! Files to read from.

/// A file to read from.
pub trait Source {
    /// Error of a failed read.
    type Error;

    /// Fills `into` with the bytes of the file from offset `at` on.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can no longer be read. A sector that the device does not
    /// deliver is not an error: it reads as zeros.
    fn read(&mut self, into: &mut [u8], at: u64) -> Result<(), Self::Error>;
}

/// Number of bytes to read at once: they stay in the L2 cache until they are summed.
pub const PIECE: usize = 256 << 10;
