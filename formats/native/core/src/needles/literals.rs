//! Literals: one is searched with `memmem`, some with Teddy, and many by their first bytes.

use std::fmt;
use std::ops::Range;

use aho_corasick::packed;
use memchr::memmem::Finder;

use super::Hit;
use super::windows::{Sample, WIDTH_MAX, Windows, hash_of};

/// Largest number of literals that Teddy searches faster than the filter does.
const TEDDY_MAX: usize = 32;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

enum Engine {
    None,
    One(Box<Finder<'static>>),
    Some(Box<packed::Searcher>),
    Many(Windows),
}

/// Distinct byte strings that are not empty.
pub struct Literals {
    values: Vec<Vec<u8>>,
    engine: Engine,
    /// For each literal, the longest other literal with which it begins.
    shorter: Vec<Option<usize>>,
}

impl fmt::Debug for Literals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The literals are somebody's secrets.
        out.debug_struct("Literals").field("len", &self.values.len()).finish_non_exhaustive()
    }
}

impl Literals {
    /// Returns the literals, or `None` if one is empty or two are equal.
    pub fn new(values: Vec<Vec<u8>>) -> Option<Self> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by(|&one, &other| values[one].cmp(&values[other]));
        let mut shorter = vec![None; values.len()];
        let mut stack: Vec<usize> = Vec::new();
        for &i in &order {
            let value = &values[i];
            while stack.last().is_some_and(|&top| !value.starts_with(&values[top])) {
                stack.pop();
            }
            if value.is_empty() || stack.last().is_some_and(|&top| values[top] == *value) {
                return None;
            }
            shorter[i] = stack.last().copied();
            stack.push(i);
        }
        let engine = Self::engine_of(&values);
        Some(Self { values, engine, shorter })
    }

    fn engine_of(values: &[Vec<u8>]) -> Engine {
        match values {
            [] => return Engine::None,
            [value] => return Engine::One(Box::new(Finder::new(value).into_owned())),
            _ => {}
        }
        if values.len() <= TEDDY_MAX {
            let mut config = packed::Config::new();
            let config = config.match_kind(packed::MatchKind::LeftmostLongest);
            if let Some(searcher) = config.builder().extend(values).build() {
                return Engine::Some(Box::new(searcher));
            }
        }
        let least = values.iter().map(Vec::len).min().unwrap_or(0).min(WIDTH_MAX);
        let stride = match least {
            0..5 => 1,
            5..WIDTH_MAX => 2,
            _ => 4,
        };
        let width = (least + 1).saturating_sub(stride);
        let samples = values.iter().enumerate().flat_map(|(string, value)| {
            (0..stride).map(move |offset| {
                let hash = hash_of(value.get(offset..).unwrap_or_default(), width, FACTOR);
                Sample { hash, string, offset }
            })
        });
        Engine::Many(Windows::new(samples.collect(), width, stride, FACTOR))
    }

    /// Returns the number of literals.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are no literals.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the size of the longest literal.
    pub fn reach(&self) -> usize {
        self.values.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Reports every literal at every place in `own`.
    pub fn search(&self, data: &[u8], own: Range<usize>, report: &mut impl FnMut(Hit)) {
        // A hit that begins in the range ends at most here.
        let stop = own.end.saturating_add(self.reach().saturating_sub(1)).min(data.len());
        let data = data.get(..stop).unwrap_or(data);
        match &self.engine {
            Engine::None => {}
            Engine::One(finder) => {
                let mut at = own.start;
                while let Some(found) = data.get(at..).and_then(|rest| finder.find(rest)) {
                    let start = at + found;
                    report(Hit { start, size: finder.needle().len(), needle: 0 });
                    at = start + 1;
                }
            }
            Engine::Some(searcher) => self.search_some(searcher, data, own, report),
            Engine::Many(windows) => {
                windows.search(data, own, &mut |start, needle| {
                    let Some(value) = self.values.get(needle) else { return };
                    if data.get(start..).is_some_and(|rest| rest.starts_with(value)) {
                        report(Hit { start, size: value.len(), needle });
                    }
                });
            }
        }
    }

    fn search_some(
        &self,
        searcher: &packed::Searcher,
        data: &[u8],
        own: Range<usize>,
        report: &mut impl FnMut(Hit),
    ) {
        let mut at = own.start;
        while at < data.len() {
            let span = aho_corasick::Span { start: at, end: data.len() };
            let Some(found) = searcher.find_in(data, span) else { break };
            let start = found.start();
            if start >= own.end {
                break;
            }
            // The longest literal is found; those with which it begins are there too.
            let mut each = Some(found.pattern().as_usize());
            while let Some(needle) = each {
                report(Hit { start, size: self.values[needle].len(), needle });
                each = self.shorter[needle];
            }
            at = start + 1;
        }
    }
}
