//! Replays of made records, and of arbitrary ones.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ignite::page_layout::types;

const SIZE: usize = 1024;
const PAGE: i64 = 0x0001_0003_0000_0007;

static CODINGS: LazyLock<Vec<Vec<Coding>>> = LazyLock::new(codings);

fn codings() -> Vec<Vec<Coding>> {
    use Coding::{Bytes2, Bytes4, I2, I4, I8, Page, Rest, U1, U2};
    let mut all = vec![Vec::new(); usize::from(TYPE_COUNT)];
    let own: [(u8, &[Coding]); 38] = [
        (1, &[Rest]),
        (5, &[U2, U2, Page]),
        (6, &[Bytes2]),
        (7, &[Page, Bytes4]),
        (8, &[U1]),
        (9, &[Page]),
        (10, &[Page]),
        (11, &[Page]),
        (12, &[]),
        (13, &[Page, U2, U2, Page, Page, Rest]),
        (14, &[Page]),
        (15, &[U2, U2, U2, Page, Rest]),
        (16, &[Page]),
        (17, &[U2]),
        (18, &[U2, U2, U2, Rest]),
        (19, &[U2, U2]),
        (21, &[I8]),
        (23, &[U2, Page]),
        (25, &[Page]),
        (26, &[Page]),
        (27, &[I4, I4, Page, Page, Page]),
        (28, &[Page]),
        (29, &[Page]),
        (30, &[U2, U2, Page, Page]),
        (31, &[I8, I8, I4, Page, U1, I4]),
        (33, &[Page, I8, I8]),
        (34, &[I8, I8]),
        (35, &[I8]),
        (36, &[I8]),
        (37, &[I4]),
        (39, &[]),
        (41, &[I4, Bytes2]),
        (42, &[Page, I2]),
        (48, &[U1]),
        (59, &[Page, I2, I8, U1, U1, U1, I8, Rest]),
        (61, &[]),
        (67, &[I8, I8, I4, Page, U1, I4, Page, I4, I4]),
        (68, &[I4, I4]),
    ];
    for (type_no, fields) in own {
        all[usize::from(type_no)] = [&[I4, Page], fields].concat();
    }
    all[38] = vec![I4, I4, U1, I8];
    all[43] = vec![I4, I4];
    all
}

fn rules() -> ReplayRules {
    ReplayRules { page_size: SIZE, pages_max: 5, codings: CODINGS.clone() }
}

fn run(records: &[(u8, Vec<u8>)], order: Order) -> Replay {
    let mut bytes = Vec::new();
    let (mut at, mut length, mut types) = (vec![], vec![], vec![]);
    for (type_no, payload) in records {
        at.push(bytes.len() as u32);
        length.push((payload.len() + MIN_SIZE) as u32);
        types.push(*type_no);
        bytes.extend([0; HEADER_SIZE]);
        bytes.extend(payload);
        bytes.extend([0; MIN_SIZE - HEADER_SIZE]);
    }
    let mut replay = Replay::new(rules());
    replay.apply(Records {
        bytes: &bytes,
        base: 0,
        at: &at,
        offset: &at,
        length: &length,
        type_no: &types,
        segment: 4,
        order,
    });
    replay
}

fn record(type_no: u8, rest: &[&[u8]]) -> (u8, Vec<u8>) {
    let mut payload = 9_i32.to_le_bytes().to_vec();
    payload.extend(PAGE.to_le_bytes());
    payload.extend(rest.concat());
    (type_no, payload)
}

fn format_as(type_no: u16) -> (u8, Vec<u8>) {
    record(5, &[&[type_no as u8, 0, 1, 0], &PAGE.to_le_bytes()])
}

#[test]
fn rows_of_a_formatted_page() {
    let records =
        [format_as(types::DATA), record(6, &[&[3, 0], b"abc"]), record(6, &[&[2, 0], b"de"])];
    let replay = run(&records, Order::Little);
    assert_eq!(replay.misfits, []);
    let pages = replay.plain_pages(Place::all_of(9, 3));
    assert_eq!((pages.indexes.as_slice(), pages.bytes.len()), ([7].as_slice(), SIZE));
    assert_eq!(pages.bytes[SIZE - 9..], *b"\x02\0de\x03\0abc");
    assert_ne!(pages.bytes[4..8], [0; 4], "the checksum");
    assert_eq!((replay.applied[5], replay.applied[6]), (1, 2));
    let fragment = record(7, &[&[7; 8], &[2, 0, 0, 0], b"de"]);
    let replay = run(&[format_as(types::DATA), fragment], Order::Little);
    let bytes = replay.plain_pages(Place::all_of(9, 3)).bytes;
    assert_eq!(bytes[SIZE - 12..], *b"\x02\x80\x07\x07\x07\x07\x07\x07\x07\x07de");
}

#[test]
fn packed_pages_are_those_of_an_image() {
    let replay = run(&[format_as(types::DATA)], Order::Little);
    let plain = replay.plain_pages(Place::all_of(9, 3));
    let packed = replay.packed_pages(9, 3);
    assert_eq!((&packed.indexes, &packed.starts), (&plain.indexes, &vec![0, SIZE as i64]));
    assert_eq!(packed.bytes[8..], plain.bytes[8..]);
    let one = Place { group: 9, partition: 3, index: 7 };
    assert_eq!(replay.plain_pages(one..=one).bytes, plain.bytes);
    let none = Place { index: 8, ..one };
    assert!(replay.plain_pages(none..=none).indexes.is_empty());
}

#[test]
fn a_delta_that_does_not_fit_breaks_its_page() {
    let link = record(25, &[&[0; 8]]);
    let insert = record(6, &[&[1, 0], b"a"]);
    let records = [insert.clone(), format_as(types::DATA), link, insert.clone()];
    let replay = run(&records, Order::Little);
    let reasons: Vec<_> = replay.misfits.iter().map(|misfit| misfit.reason).collect();
    assert_eq!(reasons, [Reason::NoBase, Reason::Type, Reason::Broken]);
    assert_eq!((replay.misfits[1].segment, replay.misfits[1].page_id), (4, PAGE));
    assert!(replay.plain_pages(Place::all_of(9, 3)).indexes.is_empty());
    assert_eq!(replay.places().count(), 1);
    let replay = run(&[&records[..], &[format_as(types::DATA), insert]].concat(), Order::Little);
    assert_eq!(replay.plain_pages(Place::all_of(9, 3)).indexes, [7]);
}

#[test]
fn a_partition_that_is_destroyed_has_no_pages() {
    let group = 9_i32.to_le_bytes();
    let destroy = (43, [&group[..], &[3, 0, 0, 0]].concat());
    let state = |state: u8| (38, [&group[..], &[3, 0, 0, 0, state], &[0; 8]].concat());
    let replay = run(&[format_as(types::DATA), destroy.clone()], Order::Little);
    assert_eq!(replay.places().count(), 0);
    assert_eq!(replay.destroyed, BTreeSet::from([(9, 3)]));
    let replay = run(&[destroy, state(1)], Order::Little);
    assert!(replay.destroyed.is_empty());
    assert_eq!(run(&[state(3)], Order::Little).destroyed.len(), 1);
}

#[test]
fn encrypted_changes_of_pages_are_noted() {
    let wrapped = |inner: u8| (63, [&[0; 8][..], &[inner + 1, 0, 1, 2]].concat());
    let replay = run(&[wrapped(45), wrapped(6)], Order::Little);
    assert_eq!((replay.misfit_count, replay.misfits[0].reason), (1, Reason::Encrypted));
}

#[test]
fn images_of_a_recovery_file() {
    let mut image = vec![1; SIZE];
    image[17] = 0;
    let mut file = PAGE.to_le_bytes().to_vec();
    file.extend(9_i32.to_le_bytes());
    file.extend((SIZE as u32).to_le_bytes());
    file.extend(crate::ignite::walk::checksum(&image).to_le_bytes());
    file.extend([0, 0]);
    file.extend(&image);
    let whole = file.len();
    file.extend([0; 30]);
    let mut replay = Replay::new(rules());
    assert_eq!(replay.take_recovered(&file, 0, Order::Little), (whole, 0));
    assert_eq!(replay.take_recovered(&file[..whole - 1], 0, Order::Little), (0, whole));
    assert_eq!(replay.plain_pages(Place::all_of(9, 3)).indexes, [7]);
}

#[test]
fn pages_are_limited() {
    let page = |index: i64| {
        let (type_no, mut payload) = format_as(6);
        payload[4..12].copy_from_slice(&index.to_le_bytes());
        (type_no, payload)
    };
    let replay = run(&(0..9).map(page).collect::<Vec<_>>(), Order::Little);
    assert_eq!((replay.places().count(), replay.misfits[0].reason), (5, Reason::Full));
}

/// Returns the number of bytes that the fields of a type have, without those of variable size.
fn fixed_size(type_no: u8) -> usize {
    CODINGS[usize::from(type_no)]
        .iter()
        .map(|coding| match coding {
            Coding::U1 => 1,
            Coding::U2 | Coding::I2 | Coding::Bytes2 => 2,
            Coding::I4 | Coding::Bytes4 => 4,
            Coding::Rest => 0,
            _ => 8,
        })
        .sum()
}

/// Returns records with small numbers in their fields, so that many of them fit their pages.
fn some_record() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let small = prop_oneof![4 => Just(0_u8), 3 => 0_u8..14, 1 => any::<u8>()];
    (0_u8..TYPE_COUNT, vec(small, 90), 0_usize..24, prop::bool::weighted(0.1)).prop_map(
        |(type_no, mut payload, more, is_cut)| {
            payload[..12].copy_from_slice(&record(0, &[]).1);
            let size = fixed_size(type_no) + if is_cut { 0 } else { more };
            payload.truncate(size.clamp(12, 90));
            (type_no, payload)
        },
    )
}

proptest! {
    #[test]
    fn any_records_are_applied_or_noted(
        kind in 0_u8..24,
        records in vec(some_record(), 0..30),
        big: bool,
    ) {
        let first = record(5, &[&[kind, 0, 1 + kind % 3, 0], &PAGE.to_le_bytes()]);
        let records = [&[first], &records[..]].concat();
        let replay = run(&records, if big { Order::Big } else { Order::Little });
        let done: u64 = replay.applied.iter().sum();
        prop_assert!(done + replay.misfit_count <= records.len() as u64);
        prop_assert!(replay.places().count() <= 5);
    }

    #[test]
    fn any_bytes_of_a_page_are_changed_inside_of_it(
        start in vec(prop_oneof![Just(0_u8), 0_u8..12, any::<u8>()], 96),
        rest: u8,
        kind in 0_u8..24,
        size in 40_usize..=SIZE,
        records in vec(some_record(), 1..20),
    ) {
        let mut content = start;
        content.resize(SIZE, rest);
        content[0] = kind;
        content[1] = 0;
        let image = record(1, &[&content[..size]]);
        run(&[&[image], &records[..]].concat(), Order::Little);
    }

    #[test]
    fn any_recovery_file_is_read(data in vec(any::<u8>(), 0..200), big: bool) {
        let mut replay = Replay::new(rules());
        let order = if big { Order::Big } else { Order::Little };
        let (read, _) = replay.take_recovered(&data, 0, order);
        prop_assert!(read <= data.len());
    }
}
