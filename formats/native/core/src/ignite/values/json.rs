//! Pieces of JSON: everything that is written is ASCII, so that no byte of a value reaches a
//! terminal.

use crate::text::{DECIMAL_MAX, put_decimal, put_hex};

/// Bytes of a decimal number from which it is written in hexadecimal: the digits of a longer one
/// would take time that grows with the square of its size.
const DECIMAL_BYTES_MAX: usize = 2048;

const LIMB: u64 = 1_000_000_000;

/// Appends a number.
pub fn number(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; DECIMAL_MAX];
    let size = put_decimal(value, &mut digits);
    out.extend_from_slice(digits.get(..size).unwrap_or_default());
}

/// Appends bytes in hexadecimal.
pub fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    if let Some(room) = out.get_mut(start..) {
        put_hex(bytes, room);
    }
}

/// Appends a string with its quotes, as ASCII.
///
/// Ignite can write each half of a surrogate pair as three bytes; other bytes that are no UTF-8
/// become U+FFFD.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    content(out, bytes);
    out.push(b'"');
}

fn content(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut rest = bytes;
    while let Some(&first) = rest.first() {
        let plain = rest.iter().take_while(|&&byte| is_plain(byte)).count();
        if plain > 0 {
            let (some, left) = rest.split_at(plain);
            out.extend_from_slice(some);
            rest = left;
            continue;
        }
        let (unit, size) = unit_of(rest, first);
        match unit {
            0x22 | 0x5c => out.extend([b'\\', first]),
            0x1_0000.. => {
                let above = unit - 0x1_0000;
                escape(out, 0xd800 + (above >> 10));
                escape(out, 0xdc00 + (above & 0x3ff));
            }
            _ => escape(out, unit),
        }
        rest = rest.get(size..).unwrap_or_default();
    }
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\'
}

fn escape(out: &mut Vec<u8>, unit: u32) {
    let [_, _, high, low] = unit.to_be_bytes();
    out.extend_from_slice(b"\\u");
    hex(out, &[high, low]);
}

/// Returns the code point at the start of bytes, and its size; U+FFFD of one byte for none.
fn unit_of(bytes: &[u8], first: u8) -> (u32, usize) {
    let (size, lead, least) = match first {
        0x00..=0x7f => return (first.into(), 1),
        0xc0..=0xdf => (2, first & 0x1f, 0x80),
        0xe0..=0xef => (3, first & 0x0f, 0x800),
        0xf0..=0xf7 => (4, first & 0x07, 0x1_0000),
        _ => return (0xfffd, 1),
    };
    let Some(tail) = bytes.get(1..size) else { return (0xfffd, 1) };
    if tail.iter().any(|byte| byte & 0xc0 != 0x80) {
        return (0xfffd, 1);
    }
    let unit = tail.iter().fold(u32::from(lead), |unit, byte| unit << 6 | u32::from(byte & 0x3f));
    if unit < least || unit > 0x10_ffff { (0xfffd, 1) } else { (unit, size) }
}

/// Returns the work to write an unscaled decimal, as bytes of text that take as long. For each byte
/// it is less than 52, so that a value without references can pay for all its decimals.
pub fn unscaled_work(size: usize) -> usize {
    if size > DECIMAL_BYTES_MAX { 0 } else { size * size / 40 }
}

/// Appends an unscaled decimal, of which only the highest bit is the sign, as a string.
pub fn unscaled(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let (is_negative, first) = match bytes.first() {
        Some(&first) => (first >= 0x80, first & 0x7f),
        None => (false, 0),
    };
    if is_negative {
        out.push(b'-');
    }
    let magnitude = || std::iter::once(first).chain(bytes.iter().skip(1).copied());
    if bytes.len() > DECIMAL_BYTES_MAX {
        out.extend_from_slice(b"0x");
        magnitude().for_each(|byte| hex(out, &[byte]));
    } else {
        digits(out, magnitude());
    }
    out.push(b'"');
}

fn digits(out: &mut Vec<u8>, magnitude: impl Iterator<Item = u8>) {
    // Limbs of nine digits, the lowest first.
    let mut limbs: Vec<u64> = vec![0];
    for byte in magnitude {
        let mut carry = u64::from(byte);
        for limb in &mut limbs {
            let next = *limb * 256 + carry;
            *limb = next % LIMB;
            carry = next / LIMB;
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let mut limbs = limbs.iter().rev();
    number(out, limbs.next().map_or(0, |&limb| limb as i64));
    for limb in limbs {
        let mut nine = [b'0'; 9];
        let mut left = *limb;
        for digit in nine.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        out.extend_from_slice(&nine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_ascii() {
        assert_eq!(
            text(|out| string(out, "aä\u{1f600}\u{7f}".as_bytes())),
            r#""a\u00e4\ud83d\ude00\u007f""#
        );
        assert_eq!(
            text(|out| string(out, b"\xed\xa0\xbd\xc0\x80\xff")),
            r#""\ud83d\ufffd\ufffd\ufffd""#
        );
    }

    #[test]
    fn decimals_of_any_size() {
        assert_eq!(text(|out| unscaled(out, &[])), r#""0""#);
        assert_eq!(text(|out| unscaled(out, &[0x81, 0, 0, 0, 0])), r#""-4294967296""#);
        assert_eq!(text(|out| unscaled(out, &[0; 2049])).len(), 2 * 2049 + 4);
    }

    proptest! {
        #[test]
        fn decimals_are_numbers(value in any::<i64>()) {
            let mut bytes = value.unsigned_abs().to_be_bytes().to_vec();
            bytes.insert(0, if value < 0 { 0x80 } else { 0 });
            prop_assert_eq!(text(|out| unscaled(out, &bytes)), format!("\"{value}\""));
        }
    }
}
