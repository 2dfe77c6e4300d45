//! Little-endian numbers at any index of a slice; `None` if they do not end inside it.

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

#[cfg(test)]
mod tests {
    use super::*;

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
