//! Slots of B-tree nodes: keys separated from the data embedded with them.
//!
//! Source: DupKeyData, IN.getEmbeddedData, JE 7.5.11.

use crate::packed;
use crate::spans::{Outside, Spans};

/// Bit of a slot's state: the record is embedded in the slot.
pub const EMBEDDED: i64 = 0x10;
/// Bit of a slot's state: the embedded record has no data.
pub const NO_DATA: i64 = 0x20;

/// Largest number of bytes of a key's length, after the first.
const LENGTH_MAX: usize = 4;

/// Returns the size of each key, and of its data, which is -1 if none is embedded.
///
/// A key that should have two parts but does not keeps all its bytes. Without `states`, all keys
/// have two parts.
pub fn split(keys: &Spans<'_>, states: Option<&[i64]>) -> Result<(Vec<i64>, Vec<i64>), Outside> {
    if states.is_some_and(|states| states.len() != keys.len()) {
        return Err(Outside);
    }
    let mut key_sizes = keys.sizes().to_vec();
    let mut data_sizes = vec![-1; keys.len()];
    for row in 0..keys.len() {
        let state = states.map_or(EMBEDDED, |states| states[row]);
        if state & EMBEDDED == 0 {
            continue;
        }
        if state & NO_DATA != 0 {
            data_sizes[row] = 0;
            continue;
        }
        if let Some((key, data)) = keys.get(row)?.and_then(two_parts) {
            key_sizes[row] = key as i64;
            data_sizes[row] = data as i64;
        }
    }
    Ok((key_sizes, data_sizes))
}

/// Returns the sizes of the key and of the data of a two-part key; `None` if it is not one.
///
/// It ends with the key's length, a packed number whose bytes run backwards.
fn two_parts(bytes: &[u8]) -> Option<(usize, usize)> {
    let (&first, rest) = bytes.split_last()?;
    let single = packed::SINGLE_BYTE_MAX as usize;
    let first = usize::from(first);
    let (length, rest) = if first <= single {
        (first, rest)
    } else if first < 128 && first - single <= LENGTH_MAX {
        let (rest, more) = rest.split_at_checked(rest.len().checked_sub(first - single)?)?;
        let length = more.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
        (length + single, rest)
    } else {
        return None;
    };
    Some((length, rest.len().checked_sub(length)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;

    #[test]
    fn examples() {
        assert_eq!(two_parts(b"dv0\x01"), Some((1, 2)));
        assert_eq!(two_parts(b"\0"), Some((0, 0)));
        for bytes in [&b""[..], b"ab\x03", b"\x01\x78", b"k\xff", b"\x80", b"aaaaaaa\x7c"] {
            assert_eq!(two_parts(bytes), None, "{bytes:x?}");
        }
        let mut long = vec![b'k'; 119 + 0x1234];
        long.extend(b"value\x12\x34\x79");
        assert_eq!(two_parts(&long), Some((119 + 0x1234, 5)));
    }

    #[test]
    fn states_decide() {
        let keys = Spans::new(b"dv0\x01", &[0; 4], &[4, 4, 4, -1]).unwrap();
        let found = split(&keys, Some(&[0, EMBEDDED, EMBEDDED | NO_DATA, EMBEDDED]));
        assert_eq!(found, Ok((vec![4, 1, 4, -1], vec![-1, 2, 0, -1])));
        assert_eq!(split(&keys, None).unwrap().0, [1, 1, 1, -1]);
        assert_eq!(split(&keys, Some(&[0])), Err(Outside));
    }

    proptest! {
        #[test]
        fn any_bytes_have_parts_inside_them(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some((key, data)) = two_parts(&bytes) {
                prop_assert!(key + data < bytes.len());
            }
        }

        #[test]
        fn any_slots_are_split_or_refused(
            data in bytes(30),
            (starts, sizes) in places(0..8),
            states in proptest::option::of(numbers(0..8)),
        ) {
            let keys = Spans::new(&data, &starts, &sizes).unwrap();
            if let Ok((key_sizes, data_sizes)) = split(&keys, states.as_deref()) {
                for (row, (&key, &data)) in key_sizes.iter().zip(&data_sizes).enumerate() {
                    prop_assert!(key <= sizes[row] && data >= -1);
                    prop_assert!(data <= 0 || key + data < sizes[row]);
                }
            }
        }
    }
}
