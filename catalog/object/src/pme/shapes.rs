//! The known fields of Parquet's footer and page headers, with their types on the wire ([`crate::thrift::shape`] says why).
//!
//! Ids and types are those of Parquet's Thrift definition. What the footer's copy reads or leaves out by itself stands here too, so
//! that a table is whole.

use crate::thrift::shape::{BINARY, BOOL, BYTE, EMPTY, Fields, I16, I32, I64, Shape};

pub(super) const FILE: &Fields = &[
    (1, I32),
    (2, Shape::List(&Shape::Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, Shape::List(&Shape::Struct(ROW_GROUP))),
    (5, Shape::List(&Shape::Struct(KEY_VALUE))),
    (6, BINARY),
    (7, Shape::List(&Shape::Struct(COLUMN_ORDER))),
];

pub(super) const SCHEMA_ELEMENT: &Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, BINARY),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Shape::Struct(LOGICAL_TYPE)),
];

/// A union; a type that is newer than the library is read as unknown.
const LOGICAL_TYPE: &Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Shape::Struct(&[(1, I32), (2, I32)])),
    (6, EMPTY),
    (7, Shape::Struct(TIME)),
    (8, Shape::Struct(TIME)),
    (10, Shape::Struct(&[(1, BYTE), (2, BOOL)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Shape::Struct(&[(1, BYTE)])),
    (17, Shape::Struct(&[(1, BINARY)])),
    (18, Shape::Struct(&[(1, BINARY), (2, I32)])),
];

/// Of a time or a timestamp; the unit is a union.
const TIME: &Fields = &[(1, BOOL), (2, Shape::Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))];

pub(super) const ROW_GROUP: &Fields = &[
    (1, Shape::List(&Shape::Struct(COLUMN_CHUNK))),
    (2, I64),
    (3, I64),
    (4, Shape::List(&Shape::Struct(&[(1, I32), (2, BOOL), (3, BOOL)]))),
    (5, I64),
    (6, I64),
    (7, I16),
];

pub(super) const COLUMN_CHUNK: &Fields = &[
    (1, BINARY),
    (2, I64),
    (3, Shape::Struct(COLUMN_METADATA)),
    (4, I64),
    (5, I32),
    (6, I64),
    (7, I32),
    (9, BINARY),
];

pub(super) const COLUMN_METADATA: &Fields = &[
    (1, I32),
    (2, Shape::List(&I32)),
    (3, Shape::List(&BINARY)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, Shape::List(&Shape::Struct(KEY_VALUE))),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Shape::Struct(STATISTICS)),
    (14, I64),
    (15, I32),
];

const STATISTICS: &Fields = &[
    (1, BINARY),
    (2, BINARY),
    (3, I64),
    (4, I64),
    (5, BINARY),
    (6, BINARY),
    (7, BOOL),
    (8, BOOL),
];

const KEY_VALUE: &Fields = &[(1, BINARY), (2, BINARY)];

/// A union.
const COLUMN_ORDER: &Fields = &[(1, EMPTY)];

pub(super) const PAGE_HEADER: &Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, Shape::Struct(DATA_PAGE)),
    (6, EMPTY),
    (7, Shape::Struct(DICTIONARY_PAGE)),
    (8, Shape::Struct(DATA_PAGE_V2)),
];

pub(super) const DATA_PAGE: &Fields = &[(1, I32), (2, I32), (3, I32), (4, I32), (5, Shape::Struct(STATISTICS))];

pub(super) const DICTIONARY_PAGE: &Fields = &[(1, I32), (2, I32), (3, BOOL)];

pub(super) const DATA_PAGE_V2: &Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, I32),
    (6, I32),
    (7, BOOL),
    (8, Shape::Struct(STATISTICS)),
];
