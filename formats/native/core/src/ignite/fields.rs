//! Fields of payloads as columns of numbers, by a declared list of codings.
//!
//! Source: RecordDataV2Serializer.readPlainRecord, CacheVersionIO, Ignite 2.18.0.

use crate::bytes::array_at;
use crate::ignite::order::Order;

/// Encoding of a field; `types.FieldCoding` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "described where Python declares them")]
pub enum Coding {
    U1 = 0,
    U2 = 1,
    I2 = 2,
    I4 = 3,
    I8 = 4,
    Page = 5,
    Time = 6,
    Version = 7,
    Bytes2 = 8,
    Bytes4 = 9,
    Uuid = 10,
    Nodes = 11,
    Rest = 12,
}

impl Coding {
    /// Returns the coding with a number.
    pub fn of(number: u8) -> Option<Self> {
        const ALL: [Coding; 13] = [
            Coding::U1,
            Coding::U2,
            Coding::I2,
            Coding::I4,
            Coding::I8,
            Coding::Page,
            Coding::Time,
            Coding::Version,
            Coding::Bytes2,
            Coding::Bytes4,
            Coding::Uuid,
            Coding::Nodes,
            Coding::Rest,
        ];
        ALL.get(usize::from(number)).copied()
    }

    /// Returns the number of columns of a field.
    pub fn columns(self) -> usize {
        match self {
            Self::Version => 4,
            Self::Bytes2 | Self::Bytes4 | Self::Uuid | Self::Nodes | Self::Rest => 2,
            _ => 1,
        }
    }
}

/// Bytes of a payload, read from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    order: Order,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor over bytes [start, end) of a buffer, cut at its end.
    pub fn new(bytes: &'a [u8], start: i64, end: i64, order: Order) -> Self {
        let index = |at: i64| usize::try_from(at).unwrap_or(0).min(bytes.len());
        let (at, end) = (index(start), index(end));
        Self { bytes: &bytes[..end.max(at)], at, end: end.max(at), order }
    }

    /// Returns true if all bytes have been read.
    pub fn is_done(&self) -> bool {
        self.at == self.end
    }

    /// Returns the index of the next byte in the buffer.
    pub fn position(&self) -> i64 {
        self.at as i64
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let found = *array_at(self.bytes, self.at)?;
        self.at += N;
        Some(found)
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Option<i64> {
        self.take::<1>().map(|[byte]| byte.into())
    }

    /// Reads an unsigned number of 2 bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<i64> {
        let found = self.order.u16_at(self.bytes, self.at)?;
        self.at += 2;
        Some(found.into())
    }

    /// Reads a signed number of 4 bytes.
    #[inline]
    pub fn i32(&mut self) -> Option<i64> {
        let found = self.order.i32_at(self.bytes, self.at)?;
        self.at += 4;
        Some(found.into())
    }

    /// Reads a signed number of 8 bytes.
    #[inline]
    pub fn i64(&mut self) -> Option<i64> {
        let found = self.order.i64_at(self.bytes, self.at)?;
        self.at += 8;
        Some(found)
    }

    /// Skips bytes; returns their start and their number.
    #[inline]
    pub fn span(&mut self, size: i64) -> Option<[i64; 2]> {
        let start = self.at;
        let stop = start.checked_add(usize::try_from(size).ok()?)?;
        if stop > self.end {
            return None;
        }
        self.at = stop;
        Some([start as i64, size])
    }

    /// Skips the rest; returns its start and its number of bytes.
    pub fn rest(&mut self) -> [i64; 2] {
        let start = self.at;
        self.at = self.end;
        [start as i64, (self.end - start) as i64]
    }

    /// Reads bytes after their length; a negative length is null.
    #[inline]
    pub fn bytes4(&mut self) -> Option<[i64; 2]> {
        match self.i32()? {
            size if size < 0 => Some([self.at as i64, -1]),
            size => self.span(size),
        }
    }

    /// Reads a version: number of its parts, topology version, node order, order.
    ///
    /// The parts of a conflict version are skipped.
    #[inline]
    pub fn version(&mut self) -> Option<[i64; 4]> {
        let parts = self.u8()?;
        if parts == 0 {
            return Some([0; 4]);
        }
        let found = [parts, self.i32()?, self.i32()?, self.i64()?];
        match parts {
            1 => Some(found),
            2 => self.span(16).map(|_| found),
            _ => None,
        }
    }

    /// Skips the nodes of a transaction; returns their bytes.
    fn nodes(&mut self) -> Option<[i64; 2]> {
        let start = self.at;
        let primaries = self.i32()?;
        // Each takes 6 bytes at least, so a forged number ends at the end of the bytes.
        for _ in 0..primaries {
            self.u16()?;
            let backups = self.i32()?;
            self.span(backups.checked_mul(2)?)?;
        }
        Some([start as i64, (self.at - start) as i64])
    }
}

/// Payloads to decode: spans of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Payloads<'a> {
    /// The buffer.
    pub bytes: &'a [u8],
    /// Start of each payload.
    pub starts: &'a [i64],
    /// End of each payload.
    pub ends: &'a [i64],
    /// Byte order of the numbers.
    pub order: Order,
}

/// Reads fields, and passes the columns of each to `put`; `None` from the first incomplete one on.
#[inline]
pub fn read(
    cursor: &mut Cursor<'_>,
    codings: &[Coding],
    mut put: impl FnMut(&[i64]),
) -> Option<()> {
    codings.iter().try_for_each(|&coding| {
        match coding {
            Coding::U1 => put(&[cursor.u8()?]),
            Coding::U2 => put(&[cursor.u16()?]),
            Coding::I2 => put(&[i64::from(cursor.u16()? as u16 as i16)]),
            Coding::I4 => put(&[cursor.i32()?]),
            Coding::I8 | Coding::Page | Coding::Time => put(&[cursor.i64()?]),
            Coding::Version => put(&cursor.version()?),
            Coding::Bytes2 => {
                let size = cursor.u16()?;
                put(&cursor.span(size)?);
            }
            Coding::Bytes4 => put(&cursor.bytes4()?),
            Coding::Uuid => put(&cursor.span(16)?),
            Coding::Nodes => put(&cursor.nodes()?),
            Coding::Rest => put(&cursor.rest()),
        }
        Some(())
    })
}

/// Returns the columns of the fields, one after the other, and a mask of the payloads that do not
/// decode to their end. Their fields are 0 from the first that is incomplete.
pub fn decode(payloads: Payloads<'_>, codings: &[Coding]) -> (Vec<i64>, Vec<bool>) {
    let rows = payloads.starts.len().min(payloads.ends.len());
    let width: usize = codings.iter().map(|coding| coding.columns()).sum();
    let mut columns = vec![0; rows * width];
    let mut bad = vec![false; rows];
    let spans = payloads.starts.iter().zip(payloads.ends);
    for (row, ((&start, &end), bad)) in spans.zip(&mut bad).enumerate() {
        let mut cursor = Cursor::new(payloads.bytes, start, end, payloads.order);
        let mut column = 0;
        let mut put = |found: &[i64]| {
            for (i, &number) in found.iter().enumerate() {
                if let Some(cell) = columns.get_mut((column + i) * rows + row) {
                    *cell = number;
                }
            }
            column += found.len();
        };
        let whole = read(&mut cursor, codings, &mut put);
        *bad = whole.is_none() || !cursor.is_done();
    }
    (columns, bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, places};
    use proptest::prelude::*;

    const EVERY: [Coding; 5] =
        [Coding::U1, Coding::Version, Coding::Bytes4, Coding::I2, Coding::Nodes];

    #[test]
    fn fields_in_columns() {
        let payload = b"\x05\x01\x07\0\0\0\x02\0\0\0\x09\0\0\0\0\0\0\0\x02\0\0\0ab\xff\xff\
            \x01\0\0\0\x03\0\x01\0\0\0\x04\0";
        let ends = [payload.len() as i64, 3];
        let payloads =
            Payloads { bytes: payload, starts: &[0, 0], ends: &ends, order: Order::Little };
        let (columns, bad) = decode(payloads, &EVERY);
        let first: Vec<_> = columns.iter().step_by(2).copied().collect();
        assert_eq!(first, [5, 1, 7, 2, 9, 22, 2, -1, 26, 12]);
        assert_eq!(bad, [false, true]);
        assert_eq!(columns[1], 5);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_inside_their_buffer(
            data in bytes(60),
            (starts, ends) in places(0..5),
            codings in proptest::collection::vec(0_u8..13, 0..6),
            big: bool,
        ) {
            let codings: Vec<_> = codings.into_iter().filter_map(Coding::of).collect();
            let order = if big { Order::Big } else { Order::Little };
            let payloads = Payloads { bytes: &data, starts: &starts, ends: &ends, order };
            let (columns, bad) = decode(payloads, &codings);
            let width: usize = codings.iter().map(|coding| coding.columns()).sum();
            prop_assert_eq!(columns.len(), width * starts.len());
            prop_assert_eq!(bad.len(), starts.len());
        }
    }
}
