//! Row numbers, one type for each table, so that the number of a part is never taken for that of its
//! message.
//!
//! A row's number is the cursor of the event that first named it. The types cost nothing: they are
//! bound to and read from SQL as the plain number.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

macro_rules! row_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord,
            serde::Serialize, serde::Deserialize,
        )]
        pub(crate) struct $name(pub(crate) i64);

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                i64::column_result(value).map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

row_id!(
    /// A row of `session` and `stream`.
    SessionNum
);
row_id!(
    /// A row of `message`.
    MessageNum
);
row_id!(
    /// A row of `part`.
    PartNum
);
row_id!(
    /// A row of `turn`.
    TurnNum
);
row_id!(
    /// A row of `chunk`.
    ChunkNum
);
row_id!(
    /// A row of `change`.
    ChangeNum
);
row_id!(
    /// A row of `search_doc`: the number of the part, the change set, or the session whose title it is.
    DocumentNum
);
