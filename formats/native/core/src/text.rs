//! Numbers and bytes as ASCII text.

/// Number of characters of the longest LSN.
pub const LSN_MAX: usize = 21;

/// Number of characters of the longest decimal number.
pub const DECIMAL_MAX: usize = 20;

const STEP: usize = 16;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes two lower-case digits for each byte of `source` to `out`, which is twice as long.
#[inline]
pub fn put_hex(source: &[u8], out: &mut [u8]) {
    let mut steps = source.chunks_exact(STEP);
    let mut outs = out.chunks_exact_mut(2 * STEP);
    for (step, digits) in steps.by_ref().zip(outs.by_ref()) {
        if let Ok(digits) = digits.try_into() {
            put_hex_step(step, digits);
        }
    }
    let rest = outs.into_remainder();
    for (&byte, pair) in steps.remainder().iter().zip(rest.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// Writes 16 bytes at once: the compiler vectorizes this form.
#[inline]
fn put_hex_step(source: &[u8], out: &mut [u8; 2 * STEP]) {
    let mut high = [0; STEP];
    let mut low = [0; STEP];
    for (i, &byte) in source.iter().take(STEP).enumerate() {
        high[i] = digit(byte >> 4);
        low[i] = digit(byte & 15);
    }
    for i in 0..STEP {
        out[2 * i] = high[i];
        out[2 * i + 1] = low[i];
    }
}

#[inline]
const fn digit(value: u8) -> u8 {
    value + b'0' + if value > 9 { b'a' - b'0' - 10 } else { 0 }
}

/// Number of bytes that [`put_lsn`] may write to.
pub const LSN_ROOM: usize = 24;

/// Writes an LSN as `0x3/0x1a2f`; returns its number of characters.
///
/// It is written in place: a copy as one block would wait for the stores of single bytes.
#[inline]
pub fn put_lsn(lsn: i64, out: &mut [u8; LSN_ROOM]) -> usize {
    let bits = lsn as u64;
    let at = put_number(out, 0, (bits >> 32) as u32);
    out[at] = b'/';
    put_number(out, at + 1, bits as u32)
}

#[inline]
fn put_number(out: &mut [u8; LSN_ROOM], at: usize, number: u32) -> usize {
    let size = (8 - number.leading_zeros() as usize / 4).max(1);
    out[at] = b'0';
    out[at + 1] = b'x';
    for i in 0..size {
        out[at + 2 + i] = DIGITS[(number >> (4 * (size - 1 - i)) & 15) as usize];
    }
    at + 2 + size
}

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Writes a decimal number; returns its number of characters.
#[inline]
pub fn put_decimal(number: i64, out: &mut [u8; DECIMAL_MAX]) -> usize {
    out[0] = b'-';
    let mut rest = number.unsigned_abs();
    let digits = rest.checked_ilog10().unwrap_or(0) as usize + 1;
    let size = digits + usize::from(number < 0);
    let mut at = size;
    while rest >= 100 {
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest >= 10 {
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[rest as usize]);
    } else {
        at -= 1;
        out[at] = b'0' + rest as u8;
    }
    size
}

/// Characters that DbDump prints for each byte, and as the fourth element their number.
///
/// A backslash becomes two; a byte that is not visible ASCII becomes a backslash and two digits.
/// Source: CmdUtil.formatEntry, JE 7.5.11.
pub const PRINTED: [[u8; 4]; 256] = {
    let mut printed = [[0; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        let high = DIGITS[byte >> 4];
        let low = DIGITS[byte & 15];
        printed[byte] = if byte == b'\\' as usize {
            [b'\\', b'\\', 0, 2]
        } else if byte > 32 && byte < 127 {
            [byte as u8, 0, 0, 1]
        } else {
            [b'\\', high, low, 3]
        };
        byte += 1;
    }
    printed
};

/// Returns the number of characters that [`PRINTED`] has for `bytes`.
#[inline]
pub fn printed_size(bytes: &[u8]) -> usize {
    let more = |&byte: &u8| match byte {
        b'\\' => 1,
        33..=126 => 0,
        _ => 2,
    };
    bytes.len() + bytes.iter().map(more).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decimal_text(number: i64) -> String {
        let mut out = [0; DECIMAL_MAX];
        let size = put_decimal(number, &mut out);
        String::from_utf8(out[..size].to_vec()).unwrap()
    }

    fn lsn_text(number: i64) -> String {
        let mut out = [0; LSN_ROOM];
        let size = put_lsn(number, &mut out);
        String::from_utf8(out[..size].to_vec()).unwrap()
    }

    #[test]
    fn digits_at_every_size() {
        let data: Vec<u8> = (0..=255).chain(0..=255).collect();
        for size in (0..70).chain([255, 256, 400]) {
            let mut out = vec![255; 2 * size + 3];
            put_hex(&data[..size], &mut out[..2 * size]);
            let told: String = data[..size].iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(&out[..2 * size], told.as_bytes());
            assert_eq!(out[2 * size..], [255; 3]);
        }
    }

    #[test]
    fn numbers_at_their_edges() {
        let mut numbers = vec![0, i64::MAX, i64::MIN];
        let mut power = 1_i64;
        for _ in 0..19 {
            numbers.extend([power, power - 1, -power, 1 - power]);
            power = power.wrapping_mul(10);
        }
        for number in numbers {
            assert_eq!(decimal_text(number), number.to_string());
        }
        assert_eq!(lsn_text(-1).len(), LSN_MAX);
    }

    #[test]
    fn printed_bytes() {
        for byte in 0..=255_u8 {
            let [.., size] = PRINTED[usize::from(byte)];
            assert_eq!(usize::from(size), printed_size(&[byte]));
        }
        assert_eq!(PRINTED[0x0a][..3], *b"\\0a");
        assert_eq!(PRINTED[0x41][0], b'A');
    }

    proptest! {
        #[test]
        fn any_number(number: i64) {
            prop_assert_eq!(decimal_text(number), number.to_string());
            let (file, offset) = (number >> 32 & 0xffff_ffff, number & 0xffff_ffff);
            prop_assert_eq!(lsn_text(number), format!("0x{file:x}/0x{offset:x}"));
        }
    }
}
