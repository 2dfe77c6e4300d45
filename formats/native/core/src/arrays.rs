//! Columns of numbers.

use std::collections::HashMap;

/// Distinct numbers of a column.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Distinct {
    /// The numbers, in order of their first row.
    pub values: Vec<i64>,
    /// First row of each number.
    pub first: Vec<i64>,
    /// Index in `values` of the number of each row.
    pub choice: Vec<i64>,
}

/// Returns the distinct numbers of a column, of which there should be few.
pub fn distinct(column: &[i64]) -> Distinct {
    let mut found = Distinct { choice: Vec::with_capacity(column.len()), ..Distinct::default() };
    // A randomly seeded hash: the numbers may come from a hostile log.
    let mut known = HashMap::new();
    let mut last = None;
    for (row, &value) in column.iter().enumerate() {
        let choice = match last {
            Some((same, choice)) if same == value => choice,
            _ => *known.entry(value).or_insert_with(|| {
                found.values.push(value);
                found.first.push(row as i64);
                found.values.len() as i64 - 1
            }),
        };
        found.choice.push(choice);
        last = Some((value, choice));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;
    use proptest::prelude::*;

    #[test]
    fn numbers_in_the_order_in_which_they_come() {
        let found = distinct(&[7, 7, -1, 7, 3, -1]);
        let told = Distinct {
            values: vec![7, -1, 3],
            first: vec![0, 2, 4],
            choice: vec![0, 0, 1, 0, 2, 1],
        };
        assert_eq!(found, told);
        assert_eq!(distinct(&[]), Distinct::default());
    }

    proptest! {
        #[test]
        fn every_row_has_its_number(column in numbers(0..40)) {
            let found = distinct(&column);
            for (row, &choice) in found.choice.iter().enumerate() {
                prop_assert_eq!(found.values[choice as usize], column[row]);
                prop_assert!(found.first[choice as usize] <= row as i64);
            }
        }
    }
}
