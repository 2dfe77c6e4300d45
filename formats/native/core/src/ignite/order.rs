//! Numbers in the byte order of the machine that wrote a store.
//!
//! Source: ByteBuffer in ByteOrder.nativeOrder(), RecordV1Serializer, Ignite 2.18.0.

use crate::bytes::array_at;

/// Byte order of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lowest byte first: x86 and ARM.
    Little,
    /// Highest byte first.
    Big,
}

impl Order {
    /// Returns the unsigned 16-bit number at `at`.
    #[inline]
    pub fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        let two = *array_at(bytes, at)?;
        Some(if self == Self::Little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) })
    }

    /// Returns the unsigned 32-bit number at `at`.
    #[inline]
    pub fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(self.u32_of(*array_at(bytes, at)?))
    }

    /// Returns an unsigned 32-bit number.
    #[inline]
    pub fn u32_of(self, four: [u8; 4]) -> u32 {
        if self == Self::Little { u32::from_le_bytes(four) } else { u32::from_be_bytes(four) }
    }

    /// Returns the signed 32-bit number at `at`.
    #[inline]
    pub fn i32_at(self, bytes: &[u8], at: usize) -> Option<i32> {
        self.u32_at(bytes, at).map(|number| number as i32)
    }

    /// Returns the signed 64-bit number at `at`.
    #[inline]
    pub fn i64_at(self, bytes: &[u8], at: usize) -> Option<i64> {
        Some(self.i64_of(*array_at(bytes, at)?))
    }

    /// Returns a signed 64-bit number.
    #[inline]
    pub fn i64_of(self, eight: [u8; 8]) -> i64 {
        if self == Self::Little { i64::from_le_bytes(eight) } else { i64::from_be_bytes(eight) }
    }

    /// Writes an unsigned 16-bit number at `at`; `None` if it lies outside of the bytes.
    #[inline]
    pub fn put_u16(self, bytes: &mut [u8], at: usize, number: u16) -> Option<()> {
        let two = if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() };
        put(bytes, at, &two)
    }

    /// Writes an unsigned 32-bit number at `at`; `None` if it lies outside of the bytes.
    #[inline]
    pub fn put_u32(self, bytes: &mut [u8], at: usize, number: u32) -> Option<()> {
        let four = if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() };
        put(bytes, at, &four)
    }

    /// Writes a signed 64-bit number at `at`; `None` if it lies outside of the bytes.
    #[inline]
    pub fn put_i64(self, bytes: &mut [u8], at: usize, number: i64) -> Option<()> {
        let eight = if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() };
        put(bytes, at, &eight)
    }
}

/// Writes bytes at `at`; `None` if some would lie outside.
#[inline]
pub fn put(bytes: &mut [u8], at: usize, new: &[u8]) -> Option<()> {
    bytes.get_mut(at..at.checked_add(new.len())?)?.copy_from_slice(new);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 0x88];
        assert_eq!(Order::Little.u16_at(&bytes, 0), Some(0x0201));
        assert_eq!(Order::Big.u16_at(&bytes, 0), Some(0x0102));
        assert_eq!(Order::Little.i32_at(&bytes, 4), Some(-0x77f8_f9fb));
        assert_eq!(Order::Big.u32_at(&bytes, 4), Some(0x0506_0788));
        assert_eq!(Order::Big.i64_at(&bytes, 0), Some(0x0102_0304_0506_0788));
        assert_eq!(Order::Little.i64_at(&bytes, 1), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = [0; 16];
        for order in [Order::Little, Order::Big] {
            assert_eq!(order.put_u16(&mut bytes, 1, 0x0102), Some(()));
            assert_eq!(order.put_u32(&mut bytes, 3, 0x0304_0506), Some(()));
            assert_eq!(order.put_i64(&mut bytes, 8, -7), Some(()));
            assert_eq!(order.u16_at(&bytes, 1), Some(0x0102));
            assert_eq!(order.u32_at(&bytes, 3), Some(0x0304_0506));
            assert_eq!(order.i64_at(&bytes, 8), Some(-7));
            assert_eq!(order.put_i64(&mut bytes, 9, 1), None);
            assert_eq!(order.put_u16(&mut bytes, usize::MAX, 1), None);
        }
    }
}
