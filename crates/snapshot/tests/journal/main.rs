//! The journal: what it tells is what a walk finds, or it is not believed (R8).

mod exact;
mod limits;
mod model;
mod site;
