//! Search for byte strings: literals, regular expressions, and strings known only by their hashes.
//!
//! A search reports every place where a literal or a hashed needle begins, also inside of another
//! hit. Hits of one regular expression do not overlap.

use std::ops::Range;

use crate::spans::{Outside, Spans};

pub use hashed::{HashedNeedles, Seed};
pub use literals::Literals;
pub use patterns::{PATTERN_REACH_MAX, Pattern, Refusal};

mod hashed;
mod literals;
mod patterns;
mod windows;

/// Bytes before a range that a regular expression may read, for word boundaries.
pub const CONTEXT: usize = 4;

/// One hit: where it begins, its size, and the number of its needle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// Offset of the first byte.
    pub start: usize,
    /// Number of bytes.
    pub size: usize,
    /// Number of the needle: literals first, then patterns, then hashed needles.
    pub needle: usize,
}

/// Hits of a search: the first of them, and the number of all by needle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hits {
    /// The first hits, at most as many as asked for.
    pub kept: Vec<Hit>,
    /// Number of all hits of each needle.
    pub counts: Vec<i64>,
    most: usize,
}

impl Hits {
    /// Returns an empty list that keeps at most `most` hits of `needles` needles.
    pub fn new(needles: usize, most: usize) -> Self {
        Self { kept: Vec::new(), counts: vec![0; needles], most }
    }

    fn add(&mut self, hit: Hit) {
        if let Some(count) = self.counts.get_mut(hit.needle) {
            *count = count.saturating_add(1);
        }
        if self.kept.len() < self.most {
            self.kept.push(hit);
        }
    }
}

/// Needles of all kinds, prepared for searches.
#[derive(Debug)]
pub struct Needles {
    literals: Literals,
    patterns: Vec<Pattern>,
    hashed: Option<HashedNeedles>,
}

impl Needles {
    /// Returns the needles.
    pub fn new(literals: Literals, patterns: Vec<Pattern>, hashed: Option<HashedNeedles>) -> Self {
        Self { literals, patterns, hashed }
    }

    /// Returns the number of needles.
    pub fn len(&self) -> usize {
        self.first_hashed() + self.hashed.as_ref().map_or(0, HashedNeedles::len)
    }

    /// Returns true if there are no needles.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn first_hashed(&self) -> usize {
        self.literals.len() + self.patterns.len()
    }

    /// Returns the largest number of bytes of a hit.
    pub fn reach(&self) -> usize {
        let patterns = self.patterns.iter().map(Pattern::reach).max().unwrap_or(0);
        let hashed = self.hashed.as_ref().map_or(0, HashedNeedles::reach);
        self.literals.reach().max(patterns).max(hashed)
    }

    /// Returns [`Pattern::fixed_len`] of each pattern.
    pub fn fixed_lens(&self) -> Vec<usize> {
        self.patterns.iter().map(Pattern::fixed_len).collect()
    }

    /// Searches for hits that begin in `own`; they may end anywhere in `data`.
    pub fn search(&self, data: &[u8], own: Range<usize>, hits: &mut Hits) {
        let own = own.start.min(data.len())..own.end.min(data.len());
        if own.is_empty() {
            return;
        }
        self.literals.search(data, own.clone(), &mut |hit| hits.add(hit));
        for (i, pattern) in self.patterns.iter().enumerate() {
            let needle = self.literals.len() + i;
            pattern.search(data, own.clone(), false, &mut |start, size| {
                hits.add(Hit { start, size, needle });
            });
        }
        if let Some(hashed) = &self.hashed {
            let first = self.first_hashed();
            hashed.search(data, own, &mut |hit| {
                hits.add(Hit { needle: first + hit.needle, ..hit });
            });
        }
    }

    /// Searches keys that a prefix cuts in two, for hits that lie in both parts.
    ///
    /// `first` has the first rest of each prefix, and the number of all rests. A hit's `start`
    /// counts from the first byte of the prefix. The third result of `report` is the row of `rests`.
    pub fn search_joined(
        &self,
        first: &[i64],
        prefixes: &Spans<'_>,
        rests: &Spans<'_>,
        hits: &mut Hits,
    ) -> Result<Vec<i64>, Outside> {
        let most = self.reach().saturating_sub(1);
        let mut rows = Vec::new();
        let mut joined = Vec::new();
        for (node, ends) in first.windows(2).enumerate() {
            let Some(prefix) = prefixes.get(node)?.filter(|prefix| !prefix.is_empty()) else {
                continue;
            };
            let (Ok(begin), Ok(end)) = (usize::try_from(ends[0]), usize::try_from(ends[1])) else {
                return Err(Outside);
            };
            let dropped = prefix.len().saturating_sub(most);
            let tail = prefix.get(dropped..).unwrap_or_default();
            for row in begin..end {
                let Some(rest) = rests.get(row)? else { continue };
                joined.clear();
                joined.extend_from_slice(tail);
                joined.extend_from_slice(rest.get(..most).unwrap_or(rest));
                self.search_border(&joined, tail.len(), |hit| {
                    if hits.kept.len() < hits.most {
                        rows.push(row as i64);
                    }
                    hits.add(Hit { start: hit.start + dropped, ..hit });
                });
            }
        }
        Ok(rows)
    }

    /// Reports hits that begin before `border` and end after it.
    fn search_border(&self, data: &[u8], border: usize, mut report: impl FnMut(Hit)) {
        let mut check = |hit: Hit| {
            if hit.start < border && hit.start + hit.size > border {
                report(hit);
            }
        };
        self.literals.search(data, 0..border, &mut check);
        for (i, pattern) in self.patterns.iter().enumerate() {
            let needle = self.literals.len() + i;
            pattern.search(data, 0..border, true, &mut |start, size| {
                check(Hit { start, size, needle });
            });
        }
        if let Some(hashed) = &self.hashed {
            let first = self.first_hashed();
            hashed.search(data, 0..border, &mut |hit| {
                check(Hit { needle: first + hit.needle, ..hit });
            });
        }
    }
}

#[cfg(test)]
mod tests;
