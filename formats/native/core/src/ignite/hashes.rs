//! Java's hashes of keys and values, which the engine's check of idle partitions adds up.
//!
//! Source: KeyCacheObjectImpl.hashCode, IdleVerifyUtility.calculatePartitionHash,
//! BinaryObjectImpl.hashCode, and the Javadoc of hashCode in the classes of the JDK.

use crate::bytes::{array_at, i32_at, i64_at};
use crate::spans::{Outside, Spans};

/// Returns Java's hash of an array of bytes.
pub fn of_bytes(bytes: &[u8]) -> i32 {
    bytes
        .iter()
        .fold(1_i32, |hash, &byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte as i8)))
}

/// Returns a digest of each byte string: its hash in the lower half, and its CRC-32 in the upper
/// half; 0 for null.
pub fn of_values(values: &Spans<'_>) -> Result<Vec<i64>, Outside> {
    (0..values.len()).map(|row| Ok(values.get(row)?.map_or(0, digest))).collect()
}

fn digest(bytes: &[u8]) -> i64 {
    i64::from(crc32fast::hash(bytes)) << 32 | i64::from(of_bytes(bytes) as u32)
}

/// Returns the hash of each key, and a mask of those whose hash is known.
pub fn of_keys(keys: &Spans<'_>) -> Result<(Vec<i32>, Vec<bool>), Outside> {
    let (mut hashes, mut known) = (Vec::new(), Vec::new());
    for row in 0..keys.len() {
        let found = keys.get(row)?.and_then(of_key);
        hashes.push(found.unwrap_or(0));
        known.push(found.is_some());
    }
    Ok((hashes, known))
}

fn folded(value: i64) -> i32 {
    (value ^ (value as u64 >> 32) as i64) as i32
}

/// Returns the hash of a key that is a tagged value or a binary object.
fn of_key(key: &[u8]) -> Option<i32> {
    let bytes = key.get(1..)?;
    let long = || i64_at(bytes, 0);
    let has = |size: usize| (bytes.len() == size).then_some(());
    Some(match *key.first()? {
        1 => has(1).and_then(|()| bytes.first()).map(|&byte| i32::from(byte as i8))?,
        2 => has(2).and_then(|()| array_at(bytes, 0)).map(|two| i16::from_le_bytes(*two).into())?,
        3 => has(4).and_then(|()| i32_at(bytes, 0))?,
        4 | 11 | 36 => has(8).and_then(|()| long()).map(folded)?,
        5 => has(4).and_then(|()| i32_at(bytes, 0)).map(float_hash)?,
        6 => has(8).and_then(|()| long()).map(double_hash)?,
        7 => has(2).and_then(|()| array_at(bytes, 0)).map(|two| u16::from_le_bytes(*two).into())?,
        8 => has(1).map(|()| if bytes == [0] { 1237 } else { 1231 })?,
        9 => string_hash(bytes)?,
        10 => has(16).and_then(|()| Some(folded(long()? ^ i64_at(bytes, 8)?)))?,
        30 => decimal_hash(bytes)?,
        33 => has(12).and_then(|()| long()).map(folded)?,
        103 => i32_at(key, 8)?,
        _ => return None,
    })
}

/// Returns Java's hash of a float; every NaN has the same.
fn float_hash(bits: i32) -> i32 {
    if f32::from_bits(bits as u32).is_nan() { 0x7fc0_0000 } else { bits }
}

fn double_hash(bits: i64) -> i32 {
    let is_nan = f64::from_bits(bits as u64).is_nan();
    folded(if is_nan { 0x7ff8_0000_0000_0000 } else { bits })
}

/// Returns Java's hash of a decimal: its magnitude has the sign in the highest bit, and is hashed
/// in words of 32 bits.
fn decimal_hash(bytes: &[u8]) -> Option<i32> {
    let scale = i32_at(bytes, 0)?;
    let size = usize::try_from(i32_at(bytes, 4)?).ok()?;
    let magnitude = bytes.get(8..).filter(|rest| rest.len() == size)?;
    let first = *magnitude.first()?;
    let mut hash = 0_i32;
    let mut word = 0_u32;
    for (i, &byte) in magnitude.iter().enumerate() {
        word = word << 8 | u32::from(if i == 0 { byte & 0x7f } else { byte });
        if (size - i - 1) % 4 == 0 {
            hash = hash.wrapping_mul(31).wrapping_add(word as i32);
            word = 0;
        }
    }
    let signed = if first & 0x80 == 0 { hash } else { hash.wrapping_neg() };
    Some(signed.wrapping_mul(31).wrapping_add(scale))
}

fn string_hash(bytes: &[u8]) -> Option<i32> {
    let size = usize::try_from(i32_at(bytes, 0)?).ok()?;
    let text = bytes.get(4..)?;
    let text = std::str::from_utf8(text).ok().filter(|_| text.len() == size)?;
    let units = text.encode_utf16();
    Some(units.fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(unit.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes;
    use proptest::prelude::*;

    #[test]
    fn hashes_of_java() {
        assert_eq!(of_bytes(&[]), 1);
        assert_eq!(digest(&[]), 1);
        assert_eq!(of_bytes(&[1, 0xff]), (31 + 1) * 31 - 1);
        assert_eq!(of_key(b"\x03\x07\0\0\0"), Some(7));
        assert_eq!(of_key(b"\x04\xff\xff\xff\xff\xff\xff\xff\xff"), Some(0));
        assert_eq!(of_key(b"\x09\x04\0\0\0name"), Some(3_373_707));
        assert_eq!(of_key(b"\x08\x01"), Some(1231));
        assert_eq!(of_key(b"\x05\x01\0\xc0\x7f"), Some(0x7fc0_0000));
        assert_eq!(of_key(b"\x09\x05\0\0\0name"), None);
        assert_eq!(of_key(b"\x18"), None);
        // new BigDecimal("1.20").hashCode(), new BigDecimal("-4294967297").hashCode()
        assert_eq!(of_key(b"\x1e\x02\0\0\0\x01\0\0\0\x78"), Some(120 * 31 + 2));
        assert_eq!(of_key(b"\x1e\0\0\0\0\x05\0\0\0\x81\0\0\0\x01"), Some(-32 * 31));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_hash_or_none(key in bytes(40)) {
            let _ = of_key(&key);
        }
    }
}
