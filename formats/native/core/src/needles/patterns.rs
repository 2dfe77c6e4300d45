//! Regular expressions over bytes, with bounds on their memory and on the size of their hits.

use std::fmt;
use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use regex_syntax::{Error, ParserBuilder};

/// Largest number of bytes of a hit: so many bytes are read again where two ranges meet.
pub const PATTERN_REACH_MAX: usize = 1 << 16;

const PROGRAM_MAX: usize = 8 << 20;
const NEST_MAX: u32 = 100;

/// Largest number of cases of a letter: U+212A is a k too.
const CASES_MAX: usize = 4;

/// Reason why a regular expression is refused. No text contains the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not a regular expression.
    Syntax(String),
    /// Its program is too large.
    TooLarge,
    /// It matches the empty string.
    Empty,
    /// Its hits may be longer than [`PATTERN_REACH_MAX`].
    Long,
    /// It matches only at the beginning or end of a text.
    Anchored,
}

/// A regular expression.
pub struct Pattern {
    regex: Regex,
    reach: usize,
    fixed: usize,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The expression is somebody's secret.
        out.debug_struct("Pattern").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl Pattern {
    /// Returns a pattern, or why it is refused.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        let tree = parse(text)?;
        let properties = tree.properties();
        let anchors = properties.look_set();
        if anchors.contains(Look::Start) || anchors.contains(Look::End) {
            return Err(Refusal::Anchored);
        }
        if properties.minimum_len().unwrap_or(0) == 0 {
            return Err(Refusal::Empty);
        }
        let most = properties.maximum_len().filter(|&most| most <= PATTERN_REACH_MAX);
        let reach = most.ok_or(Refusal::Long)?;
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(PROGRAM_MAX).dfa_size_limit(PROGRAM_MAX).nest_limit(NEST_MAX);
        let regex = builder.build().map_err(|_| Refusal::TooLarge)?;
        Ok(Self { regex, reach, fixed: fixed_len(&tree) })
    }

    /// Returns the largest number of bytes of a hit.
    pub fn reach(&self) -> usize {
        self.reach
    }

    /// Returns the number of bytes that are alike in all hits, but for the case of letters.
    pub fn fixed_len(&self) -> usize {
        self.fixed
    }

    /// Reports the starts and sizes of hits in `own`; with `is_overlapping`, one per first byte.
    pub fn search(
        &self,
        data: &[u8],
        own: Range<usize>,
        is_overlapping: bool,
        report: &mut impl FnMut(usize, usize),
    ) {
        let mut at = own.start;
        while at < own.end.min(data.len()) {
            let Some(found) = self.regex.find_at(data, at) else { break };
            if found.start() >= own.end {
                break;
            }
            report(found.start(), found.len());
            at = if is_overlapping { found.start() + 1 } else { found.end() };
        }
    }
}

fn fixed_len(tree: &Hir) -> usize {
    match tree.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(class) => usize::from(member_count(class) <= CASES_MAX),
        HirKind::Repetition(repetition) => {
            fixed_len(&repetition.sub).saturating_mul(repetition.min as usize)
        }
        HirKind::Capture(capture) => fixed_len(&capture.sub),
        HirKind::Concat(trees) => {
            trees.iter().fold(0, |sum, tree| fixed_len(tree).saturating_add(sum))
        }
        HirKind::Alternation(trees) => trees.iter().map(fixed_len).min().unwrap_or(0),
    }
}

fn member_count(class: &Class) -> usize {
    match class {
        Class::Unicode(class) => class.ranges().iter().map(|range| range.len()).sum(),
        Class::Bytes(class) => class.ranges().iter().map(|range| range.len()).sum(),
    }
}

fn parse(text: &str) -> Result<Hir, Refusal> {
    let mut parser = ParserBuilder::new().utf8(false).nest_limit(NEST_MAX).build();
    parser.parse(text).map_err(|error| {
        Refusal::Syntax(match error {
            Error::Parse(error) => error.kind().to_string(),
            Error::Translate(error) => error.kind().to_string(),
            _ => "it cannot be parsed".to_owned(),
        })
    })
}
