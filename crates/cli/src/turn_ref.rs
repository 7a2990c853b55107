//! Turns as they are typed: an ID, a unique prefix of one, or a number counted from the newest turn.

use std::str::FromStr;

use crate::id_prefix::IdPrefix;

/// What a number starts with.
const NUMBER_MARK: char = '@';

/// A turn as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnRef {
    /// `@N`: the Nth newest turn of the project, as `turnstone log` numbers them.
    Number(usize),
    /// An ID or a prefix of one.
    Prefix(IdPrefix),
}

impl FromStr for TurnRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(number) = text.strip_prefix(NUMBER_MARK) else {
            return text.parse().map(Self::Prefix);
        };
        match number.parse::<usize>() {
            Ok(number) if number > 0 && !text.contains('+') => Ok(Self::Number(number)),
            Ok(_) | Err(_) => {
                Err("turns are numbered from the newest: @1, @2 and so on".to_owned())
            }
        }
    }
}

/// True if a text is meant as the number of a turn.
pub(crate) fn is_turn_number(text: &str) -> bool {
    text.starts_with(NUMBER_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_from_one() {
        assert_eq!("@2".parse(), Ok(TurnRef::Number(2)));
        for wrong in ["@", "@0", "@-1", "@+1", "@x", "@1 "] {
            assert!(wrong.parse::<TurnRef>().is_err(), "{wrong}");
        }
        assert!(matches!("trn_1".parse(), Ok(TurnRef::Prefix(_))));
    }
}
