//! Packed integers: the engine's encoding of numbers that are mostly small.
//!
//! A magnitude of at most [`SINGLE_BYTE_MAX`] is its own first byte, with its sign. Any other first
//! byte gives the sign and the number of bytes that follow. They hold the magnitude less
//! [`SINGLE_BYTE_MAX`], lowest byte first.
//!
//! Source: PackedInteger.readLong and writeLong, JE 7.5.11.

/// Largest magnitude of a number that takes one byte.
pub const SINGLE_BYTE_MAX: i64 = 119;

/// Number of bytes of the longest packed integer.
pub const SIZE_MAX: usize = 9;

/// Returns the packed integer at `at` and the offset after it.
///
/// Returns `None` if it extends past `end` or `bytes`, or if its value does not fit 64 bits.
#[inline]
pub fn read(bytes: &[u8], at: usize, end: usize) -> Option<(i64, usize)> {
    if at >= end {
        return None;
    }
    let first = i64::from(i8::from_le_bytes([*bytes.get(at)?]));
    if first.abs() <= SINGLE_BYTE_MAX {
        return Some((first, at + 1));
    }
    let size = usize::try_from(first.abs() - SINGLE_BYTE_MAX).ok()?;
    let after = at + 1 + size;
    if size >= SIZE_MAX || after > end {
        return None;
    }
    let mut magnitude = [0; 8];
    magnitude[..size].copy_from_slice(bytes.get(at + 1..after)?);
    let rest = i64::try_from(u64::from_le_bytes(magnitude)).ok()?;
    let value = if first > 0 {
        rest.checked_add(SINGLE_BYTE_MAX)?
    } else {
        (-rest).checked_sub(SINGLE_BYTE_MAX)?
    };
    Some((value, after))
}

/// Returns the number of bytes of the packed integer that begins with `first`.
#[inline]
pub fn size_by_first(first: u8) -> usize {
    let magnitude = i64::from(i8::from_le_bytes([first])).unsigned_abs();
    1 + usize::try_from(magnitude.saturating_sub(SINGLE_BYTE_MAX.unsigned_abs())).unwrap_or(0)
}

/// Returns the number of bytes of the shortest packed form of `value`.
#[inline]
pub fn size_of(value: i64) -> usize {
    encode(value).1
}

/// Returns the shortest packed form of `value`, and its number of bytes.
#[inline]
pub fn encode(value: i64) -> ([u8; SIZE_MAX], usize) {
    let mut out = [0; SIZE_MAX];
    let magnitude = value.unsigned_abs();
    let single = SINGLE_BYTE_MAX.unsigned_abs();
    if magnitude <= single {
        // The first byte of a small number is its lowest byte, sign included.
        out[0] = value.to_le_bytes()[0];
        return (out, 1);
    }
    let rest = magnitude - single;
    let size = (8 - rest.leading_zeros() / 8).max(1) as u8;
    let first = single as u8 + size;
    out[0] = if value > 0 { first } else { first.wrapping_neg() };
    out[1..].copy_from_slice(&rest.to_le_bytes());
    (out, 1 + usize::from(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn examples_of_the_format_page() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (-1, &[0xff]),
            (119, &[0x77]),
            (-119, &[0x89]),
            (120, &[0x78, 0x01]),
            (-120, &[0x88, 0x01]),
            (0x2196, &[0x79, 0x1f, 0x21]),
            (-498_687, &[0x86, 0x88, 0x9b, 0x07]),
        ] {
            let (out, size) = encode(value);
            assert_eq!(&out[..size], bytes, "{value}");
            assert_eq!(read(bytes, 0, bytes.len()), Some((value, bytes.len())));
        }
    }

    #[test]
    fn a_value_beyond_64_bits_is_none() {
        for bytes in [
            b"\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x7f\x89\xff\xff\xff\xff\xff\xff\x7f",
            b"\x81\x8a\xff\xff\xff\xff\xff\xff\x7f",
        ] {
            assert_eq!(read(bytes, 0, 9), None, "{bytes:x?}");
        }
        assert_eq!(read(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff", 0, 10), None);
        assert_eq!(read(b"\x7f\x88\xff\xff\xff\xff\xff\xff\x7f", 0, 9), Some((i64::MAX, 9)));
        assert_eq!(read(b"\x81\x89\xff\xff\xff\xff\xff\xff\x7f", 0, 9), Some((i64::MIN, 9)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: i64, before in 0_usize..3, behind in 0_usize..3) {
            let (out, size) = encode(value);
            let mut bytes = vec![0x7f; before];
            bytes.extend(&out[..size]);
            bytes.resize(bytes.len() + behind, 0x7f);
            prop_assert_eq!(read(&bytes, before, bytes.len()), Some((value, before + size)));
            for end in before..before + size {
                prop_assert_eq!(read(&bytes, before, end), None);
            }
        }

        #[test]
        fn any_bytes_are_read_inside_their_end(
            bytes in proptest::collection::vec(any::<u8>(), 0..12),
            at in 0_usize..14,
            end in 0_usize..14,
        ) {
            if let Some((_, after)) = read(&bytes, at, end) {
                prop_assert!(at < after && after <= end && after <= bytes.len());
            }
        }
    }
}
