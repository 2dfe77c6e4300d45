//! Adler-32 of entries, some hundred bytes each.
//!
//! Source: RFC 1950, section 8.2.

use simd_adler32::Adler32;

/// Returns the Adler-32 of `bytes`, after masking the second byte with `mask`.
///
/// The second summed byte of an entry holds its flags, and the checksum does not cover one of them.
#[inline]
pub fn of_masked(bytes: &[u8], mask: u8) -> u32 {
    let Some((&[first, second], rest)) = bytes.split_first_chunk() else {
        return of(1, bytes);
    };
    let low = 1 + u32::from(first);
    let both = low + u32::from(second & mask);
    of((low + both) << 16 | both, rest)
}

/// Returns the Adler-32 of the bytes that gave `state`, followed by `bytes`.
#[inline]
pub fn of(state: u32, bytes: &[u8]) -> u32 {
    let mut sum = Adler32::from_checksum(state);
    sum.write(bytes);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the sum as RFC 1950 defines it, one byte at a time.
    fn plain(bytes: &[u8]) -> u32 {
        let (mut low, mut high) = (1_u32, 0_u32);
        for &byte in bytes {
            low = (low + u32::from(byte)) % 65521;
            high = (high + low) % 65521;
        }
        high << 16 | low
    }

    fn samples() -> [Vec<u8>; 2] {
        let mixed = (0_u32..20_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
        [mixed.collect(), vec![0xff; 20_000]]
    }

    #[test]
    fn every_length_at_every_alignment() {
        for data in samples() {
            for start in [0, 1, 7, 15, 31, 32, 33, 100] {
                for size in (0..1600).chain([5552, 5553, 11_105, 19_000]) {
                    let bytes = &data[start..start + size];
                    assert_eq!(of_masked(bytes, 0xff), plain(bytes), "{start} {size}");
                }
            }
        }
    }

    #[test]
    fn the_second_byte_is_masked() {
        let [data, _] = samples();
        for mask in [0xff, 0xef, 0x0f, 0] {
            for size in [2, 3, 500] {
                let mut masked = data[..size].to_vec();
                masked[1] &= mask;
                assert_eq!(of_masked(&data[..size], mask), plain(&masked));
            }
        }
    }

    #[test]
    fn a_sum_goes_on_where_it_stopped() {
        let [data, _] = samples();
        for at in [0, 1, 100, 10_000] {
            assert_eq!(of(of(1, &data[..at]), &data[at..]), plain(&data));
        }
    }
}
