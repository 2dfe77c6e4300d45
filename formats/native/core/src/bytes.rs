//! Little-endian numbers at any index of a slice, `None` if they do not end inside it, and tests
//! for zeros.

/// Returns the `N` bytes at `at`.
#[inline]
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// Returns the unsigned 32-bit number at `at`.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(|four| u32::from_le_bytes(*four))
}

/// Returns the signed 32-bit number at `at`.
#[inline]
pub fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array_at(bytes, at).map(|four| i32::from_le_bytes(*four))
}

/// Returns the signed 64-bit number at `at`.
#[inline]
pub fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    array_at(bytes, at).map(|eight| i64::from_le_bytes(*eight))
}

/// Number of bytes that [`are_zero`] combines before it tests them: this compiles to vector code.
const BLOCK: usize = 256;

/// Returns true if all bytes are zero.
pub fn are_zero(bytes: &[u8]) -> bool {
    bytes.chunks(BLOCK).all(|block| block.iter().fold(0, |found, &byte| found | byte) == 0)
}

/// Returns the number of zeros that bytes begin with.
pub fn zeros(bytes: &[u8]) -> usize {
    let blocks = bytes.chunks(BLOCK).take_while(|block| are_zero(block)).count();
    let start = blocks.saturating_mul(BLOCK).min(bytes.len());
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|&&byte| byte == 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_in_any_place_is_not_zero() {
        let mut bytes = [0; 2 * BLOCK + 1];
        assert!(are_zero(&bytes) && are_zero(&[]));
        for at in 0..bytes.len() {
            bytes[at] = 0x40;
            assert!(!are_zero(&bytes));
            bytes[at] = 0;
        }
    }

    #[test]
    fn zeros_before_any_byte_are_counted() {
        let mut bytes = [0; 2 * BLOCK + 1];
        assert_eq!((zeros(&bytes), zeros(&[])), (bytes.len(), 0));
        for at in 0..bytes.len() {
            bytes[at] = 7;
            assert_eq!(zeros(&bytes), at);
            bytes[at] = 0;
        }
    }

    #[test]
    fn numbers_are_little_endian() {
        let bytes = [0xff, 0x01, 0x02, 0x03, 0x84, 0x05, 0x06, 0x07, 0x88];
        assert_eq!(u32_at(&bytes, 1), Some(0x8403_0201));
        assert_eq!(i32_at(&bytes, 1), Some(-0x7bfc_fdff));
        assert_eq!(i64_at(&bytes, 1), Some(-0x77f8_f9fa_7bfc_fdff));
    }

    #[test]
    fn a_number_that_is_cut_short_is_none() {
        let bytes = [0; 8];
        assert_eq!(u32_at(&bytes, 5), None);
        assert_eq!(i64_at(&bytes, 1), None);
        assert_eq!(i32_at(&bytes, 9), None);
        assert_eq!(i32_at(&bytes, usize::MAX), None);
    }
}
