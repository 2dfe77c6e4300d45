use super::*;
use crate::testing::bytes;
use proptest::prelude::*;

fn literals(values: &[&[u8]]) -> Literals {
    Literals::new(values.iter().map(|value| value.to_vec()).collect()).unwrap()
}

fn of_literals(values: &[&[u8]]) -> Needles {
    Needles::new(literals(values), Vec::new(), None)
}

fn of_pattern(text: &str) -> Needles {
    Needles::new(literals(&[]), vec![Pattern::new(text).unwrap()], None)
}

fn of_hashes(values: &[&[u8]], number: u64) -> Needles {
    let seed = Seed::new(number);
    let width = values.iter().map(|value| value.len()).min().unwrap().min(8);
    let firsts: Vec<u32> = values.iter().map(|value| seed.first(value, width)).collect();
    let wholes = values.iter().map(|value| seed.whole(value)).collect();
    let sizes = values.iter().map(|value| value.len()).collect();
    let hashed = HashedNeedles::new(seed, width, sizes, &firsts, wholes);
    Needles::new(literals(&[]), Vec::new(), Some(hashed.unwrap()))
}

fn found(needles: &Needles, data: &[u8], own: Range<usize>) -> Vec<(usize, usize, usize)> {
    let mut hits = Hits::new(needles.len(), usize::MAX);
    needles.search(data, own, &mut hits);
    let mut kept: Vec<_> = hits.kept.iter().map(|hit| (hit.start, hit.size, hit.needle)).collect();
    kept.sort_unstable();
    kept
}

fn expected(values: &[&[u8]], data: &[u8], own: Range<usize>) -> Vec<(usize, usize, usize)> {
    let places = own.start.min(data.len())..own.end.min(data.len());
    let all = places.flat_map(|at| (0..values.len()).map(move |needle| (at, needle)));
    let is_there = |&(at, needle): &(usize, usize)| data[at..].starts_with(values[needle]);
    let hits = all.filter(is_there).map(|(at, needle)| (at, values[needle].len(), needle));
    let mut hits: Vec<_> = hits.collect();
    hits.sort_unstable();
    hits
}

#[test]
fn the_letters_that_every_hit_of_a_pattern_has_are_counted() {
    let fixed_len = |text: &str| Pattern::new(text).unwrap().fixed_len();
    assert_eq!(fixed_len("user3@ex[a-z]{1,9}[.]org"), 12);
    assert_eq!(fixed_len("(?i)carol"), 5);
    assert_eq!(fixed_len("(?i)mark"), 4);
    assert_eq!(fixed_len("(abc|ab[0-9]c|ab)d"), 3);
    assert_eq!(fixed_len("(ab?){3}"), 3);
    for text in ["[a-z]{8}", ".", "a?[0-9]", "x{0,9}.", r"(?-u)[\x00-\x09]{4}"] {
        assert_eq!(fixed_len(text), 0, "{text}");
    }
}

#[test]
fn every_literal_is_found_inside_of_others() {
    let values: &[&[u8]] = &[b"ana", b"anana", b"banana", b"nab"];
    let data = b"bananabananabanana";
    assert_eq!(found(&of_literals(values), data, 0..18), expected(values, data, 0..18));
    assert_eq!(found(&of_literals(&[b"ana"]), data, 2..8), [(3, 3, 0), (7, 3, 0)]);
}

#[test]
fn hits_beyond_the_most_are_counted() {
    let needles = of_literals(&[b"a"]);
    let mut hits = Hits::new(1, 3);
    needles.search(b"aaaaaaaaaa", 0..10, &mut hits);
    assert_eq!((hits.kept.len(), hits.counts), (3, vec![10]));
}

#[test]
fn equal_and_empty_literals_are_refused() {
    assert!(Literals::new(vec![b"a".to_vec(), b"b".to_vec(), b"a".to_vec()]).is_none());
    assert!(Literals::new(vec![Vec::new()]).is_none());
}

#[test]
fn patterns_are_bounded() {
    let refusal = |text: &str| Pattern::new(text).unwrap_err();
    assert_eq!(refusal("a*"), Refusal::Empty);
    assert_eq!(refusal("a.*b"), Refusal::Long);
    assert_eq!(refusal("a.{70000}"), Refusal::Long);
    assert_eq!(refusal("^a"), Refusal::Anchored);
    assert_eq!(refusal(r"(?:\w{100}){140}"), Refusal::TooLarge);
    assert_eq!(refusal("secret("), Refusal::Syntax("unclosed group".to_owned()));
    assert!(Pattern::new("(?i)m\u{fc}ller").is_ok());
    let needles = of_pattern(r"(?-u)\xff\x00[a-c]{1,9}?z");
    assert_eq!(found(&needles, b".\xff\0abz", 0..5), [(1, 5, 0)]);
}

#[test]
fn a_pattern_sees_the_bytes_before_its_range() {
    let needles = of_pattern(r"\bcat\b");
    assert_eq!(found(&needles, b"bobcat cat", 3..10), [(7, 3, 0)]);
}

#[test]
fn only_hits_in_both_parts_of_a_key_are_joined() {
    let data = b"prefix:ab:cd:rest";
    let prefixes = Spans::new(data, &[0, 0], &[7, 0]).unwrap();
    let rests = Spans::new(data, &[7, 10, 7], &[2, 2, 2]).unwrap();
    for needles in [
        of_literals(&[b":a", b"fix", b"cd", b"x:cd"]),
        of_hashes(&[b":a", b"fix", b"cd", b"x:cd"], 77),
    ] {
        let mut hits = Hits::new(needles.len(), 10);
        let rows = needles.search_joined(&[0, 2, 3], &prefixes, &rests, &mut hits).unwrap();
        let kept: Vec<_> = hits.kept.iter().map(|hit| (hit.start, hit.needle)).collect();
        assert_eq!((rows, kept), (vec![0, 1], vec![(6, 0), (5, 3)]));
    }
    let needles = of_pattern("x:.b");
    let mut hits = Hits::new(1, 10);
    let rows = needles.search_joined(&[0, 2, 3], &prefixes, &rests, &mut hits).unwrap();
    assert_eq!((rows, hits.kept[0].start, hits.counts), (vec![0], 5, vec![1]));
}

fn alphabet(size: Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0_u8..3, size)
}

proptest! {
    #[test]
    fn literals_are_found_as_by_comparing_each_place(
        mut values in prop_oneof![
            proptest::collection::vec(alphabet(1..6), 1..60),
            proptest::collection::vec(alphabet(5..9), 33..60),
            proptest::collection::vec(alphabet(8..12), 33..60),
        ],
        data in alphabet(0..200),
        start in 0_usize..60,
        size in 0_usize..200,
    ) {
        values.sort();
        values.dedup();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let own = start..start + size;
        let wanted = expected(&values, &data, own.clone());
        prop_assert_eq!(found(&of_literals(&values), &data, own), wanted);
    }

    #[test]
    fn hashed_needles_are_found_as_by_comparing_each_place(
        mut values in proptest::collection::vec(alphabet(1..20), 1..60),
        data in alphabet(0..200),
        start in 0_usize..60,
        size in 0_usize..200,
        seed in any::<u64>(),
    ) {
        values.sort();
        values.dedup();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let own = start..start + size;
        let wanted = expected(&values, &data, own.clone());
        prop_assert_eq!(found(&of_hashes(&values, seed), &data, own), wanted);
    }

    #[test]
    fn any_range_is_cut_at_the_data(data in bytes(60), start in any::<usize>(), end in any::<usize>()) {
        for needles in [of_literals(&[b"\0"]), of_hashes(&[b"\0\0", b"abc"], 3), of_pattern("[^a]")] {
            let mut hits = Hits::new(needles.len(), 5);
            needles.search(&data, start..end, &mut hits);
            prop_assert!(hits.kept.len() <= 5);
            prop_assert!(hits.kept.iter().all(|hit| hit.start + hit.size <= data.len()));
        }
    }

    #[test]
    fn any_text_is_a_pattern_or_is_refused(text in ".{0,24}", data in bytes(60)) {
        if let Ok(pattern) = Pattern::new(&text) {
            pattern.search(&data, 0..data.len(), true, &mut |start, size| {
                assert!(size > 0 && size <= pattern.reach() && start + size <= data.len());
            });
        }
    }
}
