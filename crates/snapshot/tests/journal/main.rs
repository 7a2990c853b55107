//! The journal: what it tells is what a walk finds, or it is not believed (R8).

#[cfg(test)]
mod exact;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod model;
#[cfg(test)]
mod site;
