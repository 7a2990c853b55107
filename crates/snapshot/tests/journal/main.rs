//! The journal: what it tells is what a walk finds, or it is not believed (R8).

#[cfg(test)]
mod change_detection;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod journal_limits;
#[cfg(test)]
mod random_operations;
