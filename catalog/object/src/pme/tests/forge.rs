//! A producer that keeps no rule: any modules, under any footer, behind any header, all sealed with the right key.

use std::ops::Range;

use parquet::{
    arrow::ArrowWriter,
    file::properties::{WriterProperties, WriterPropertiesBuilder},
};
use ring::aead::{Aad, LessSafeKey, Nonce};

use super::*;
use crate::thrift::{Struct, Value};

/// FileCryptoMetaData as DuckDB writes it: no key reference.
pub(super) const DUCKDB_HEADER: &[u8] = &[0x1c, 0x1c, 0, 0, 0];

/// Nonces that count from a place of their own, so that two objects under one key share none.
pub(super) struct Counted(pub(super) u64);

impl NonceSource for Counted {
    fn next_nonce(&mut self) -> [u8; 12] {
        self.0 += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.0.to_be_bytes());
        nonce
    }
}

/// A page as it stands in a plain file.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) header: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Page {
    /// The same page with another header.
    pub(super) fn with_header(&self, change: impl FnOnce(&mut Struct<'_>)) -> Self {
        let mut header = Struct::decode(&self.header).unwrap();
        change(&mut header);
        Self {
            header: header.encode(),
            body: self.body.clone(),
        }
    }
}

/// A plain Parquet file taken apart.
pub(super) struct Parts {
    pub(super) footer: Struct<'static>,
    /// Pages of the column chunks, row group by row group.
    pub(super) chunks: Vec<Vec<Page>>,
}

impl Parts {
    pub(super) fn of(plain: &[u8]) -> Self {
        let encoded = Encoded {
            bytes: plain.to_vec(),
            rows: 0,
        };
        let mut footer = Struct::decode(encoded.footer().unwrap()).unwrap().into_owned();
        let chunks = footer.structs_mut(4).flat_map(|group| group.structs_mut(1));
        let chunks = chunks
            .map(|chunk| pages_of(plain, chunk.struct_mut(3).unwrap()))
            .collect();
        Self { footer, chunks }
    }

    /// What our own writer encodes.
    pub(super) fn of_ours(batch: &RecordBatch, options: EncodeOptions) -> Self {
        Self::of(&Encoded::new(batch.schema(), [batch], options).unwrap().bytes)
    }

    /// What the Parquet library makes under properties of its own.
    pub(super) fn of_foreign(
        batch: &RecordBatch,
        properties: impl FnOnce(WriterPropertiesBuilder) -> WriterPropertiesBuilder,
    ) -> Self {
        let properties = properties(WriterProperties::builder()).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        Self::of(&writer.into_inner().unwrap())
    }

    /// An object of these pages as DuckDB would write it: no padding, no markers, no key reference, as many pages as there are.
    pub(super) fn seal(self) -> Vec<u8> {
        self.seal_with(|forge, _, page| forge.page(page))
    }

    /// The same with a say in every page; `put` gets the chunk's index.
    pub(super) fn seal_with(mut self, put: impl FnMut(&mut Forge, usize, &Page)) -> Vec<u8> {
        let mut forge = Forge::new();
        forge.chunks(&mut self, put);
        forge.end(DUCKDB_HEADER, &self.footer.encode())
    }
}

fn pages_of(plain: &[u8], metadata: &Struct<'_>) -> Vec<Page> {
    let start = metadata.i64(11).unwrap_or_else(|| metadata.i64(9).unwrap()) as usize;
    let mut rest = &plain[start..start + metadata.i64(7).unwrap() as usize];
    let mut pages = Vec::new();
    while !rest.is_empty() {
        let parsed = page::parse(rest).unwrap();
        let (header, after) = rest.split_at(parsed.len);
        let (body, after) = after.split_at(parsed.info.compressed_len as usize);
        pages.push(Page {
            header: header.to_vec(),
            body: body.to_vec(),
        });
        rest = after;
    }
    pages
}

/// An object in the making.
pub(super) struct Forge {
    pub(super) bytes: Vec<u8>,
    cipher: LessSafeKey,
    nonces: Counted,
}

impl Forge {
    pub(super) fn new() -> Self {
        Self {
            bytes: MAGIC.to_vec(),
            cipher: cipher(),
            nonces: Counted(0),
        }
    }

    /// A proper module.
    pub(super) fn module(&mut self, plain: &[u8]) {
        module::seal(&self.cipher, self.nonces.next_nonce(), plain, &mut self.bytes).unwrap();
    }

    /// Both modules of a page.
    pub(super) fn page(&mut self, page: &Page) {
        self.module(&page.header);
        self.module(&page.body);
    }

    /// A module sealed under an AAD, as the Parquet specification has it.
    pub(super) fn module_with_aad(&mut self, plain: &[u8], aad: &[u8]) {
        let nonce = self.nonces.next_nonce();
        self.bytes.extend_from_slice(&(plain.len() as u32 + 28).to_le_bytes());
        self.bytes.extend_from_slice(&nonce);
        let mut sealed = plain.to_vec();
        self.cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut sealed)
            .unwrap();
        self.bytes.extend_from_slice(&sealed);
    }

    /// Seals the pages of `parts` through `put` and points the footer at them.
    pub(super) fn chunks(&mut self, parts: &mut Parts, mut put: impl FnMut(&mut Self, usize, &Page)) {
        let mut pages = parts.chunks.iter().enumerate();
        for group in parts.footer.structs_mut(4) {
            let group_from = self.bytes.len() as i64;
            for chunk in group.structs_mut(1) {
                let (index, pages) = pages.next().unwrap();
                let from = self.bytes.len() as i64;
                let (mut data_at, mut dictionary_at) = (None, None);
                for page in pages {
                    let at = self.bytes.len() as i64;
                    match page::parse(&page.header) {
                        Ok(parsed) if parsed.info.kind == PageKind::Dictionary => dictionary_at.get_or_insert(at),
                        _ => data_at.get_or_insert(at),
                    };
                    put(self, index, page);
                }
                let metadata = chunk.struct_mut(3).unwrap();
                metadata.set(9, Value::I64(data_at.unwrap_or(from)));
                match dictionary_at {
                    Some(at) => metadata.set(11, Value::I64(at)),
                    None => metadata.remove(&[11]),
                }
                metadata.set(7, Value::I64(self.bytes.len() as i64 - from));
                chunk.set(2, Value::I64(0));
            }
            group.set(5, Value::I64(group_from));
            group.set(6, Value::I64(self.bytes.len() as i64 - group_from));
        }
    }

    /// Seals `footer` and closes the file.
    pub(super) fn end(mut self, header: &[u8], footer: &[u8]) -> Vec<u8> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(header);
        self.module(footer);
        self.close(from)
    }

    /// Closes the file behind bytes that stand for header and footer.
    pub(super) fn end_raw(mut self, end: &[u8]) -> Vec<u8> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(end);
        self.close(from)
    }

    fn close(mut self, footer_from: usize) -> Vec<u8> {
        let len = (self.bytes.len() - footer_from) as u32;
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(&MAGIC);
        self.bytes
    }
}

pub(super) fn cipher() -> LessSafeKey {
    module::ModuleKey::new(&dek()).cipher()
}

/// Where FileCryptoMetaData starts.
pub(super) fn footer_from(bytes: &[u8]) -> usize {
    let end = bytes.len() - 8;
    end - u32_at(bytes, end)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// The object with another length of the footer in its tail.
pub(super) fn with_footer_len(bytes: &[u8], len: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = bytes.len() - 8;
    bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
    bytes
}

/// Our object with another FileCryptoMetaData.
pub(super) fn with_header(bytes: &[u8], header: &[u8]) -> Vec<u8> {
    let from = footer_from(bytes);
    let mut forge = Forge::new();
    forge.bytes = bytes[..from].to_vec();
    forge.end_raw(&[header, &bytes[from + 23..bytes.len() - 8]].concat())
}

/// Our object with a changed footer, sealed and padded by a producer that does as it likes.
pub(super) fn with_footer(
    batch: &RecordBatch,
    options: EncodeOptions,
    change: impl FnOnce(&mut Struct<'static>),
) -> Vec<u8> {
    let encoded = Encoded::new(batch.schema(), [batch], options).unwrap();
    let mut padded = encoded
        .encrypt(&dek(), &mut CountingNonces::default())
        .unwrap()
        .with_key_ref(key_ref())
        .pad()
        .unwrap();
    change(&mut padded.encrypted.footer);
    padded.footer = padded.encrypted.footer.encode();
    padded.seal().unwrap().bytes.to_vec()
}

pub(super) fn key_values<'a>(footer: &'a mut Struct<'static>) -> &'a mut Vec<Value<'static>> {
    match footer.get_mut(5) {
        Some(Value::List(list)) => &mut list.items,
        _ => panic!("no key values"),
    }
}

pub(super) fn entry(key: &'static str, value: &'static [u8]) -> Value<'static> {
    let mut entry = Struct::default();
    entry.set(1, Value::Binary(key.as_bytes().into()));
    entry.set(2, Value::Binary(value.into()));
    Value::Struct(entry)
}

/// The footer's column chunks, row group by row group.
pub(super) fn columns<'a>(footer: &'a mut Struct<'static>) -> Vec<&'a mut Struct<'static>> {
    footer.structs_mut(4).flat_map(|group| group.structs_mut(1)).collect()
}

/// The modules of an object, by walking lengths alone; the last is the footer's.
pub(super) fn modules(bytes: &[u8], header_len: usize) -> Vec<Range<usize>> {
    let footer_from = footer_from(bytes);
    let mut modules = Vec::new();
    let mut at = 4;
    while at < footer_from {
        modules.push(at..at + 4 + u32_at(bytes, at));
        at = modules.last().unwrap().end;
    }
    assert_eq!(at, footer_from);
    let footer = footer_from + header_len;
    modules.push(footer..footer + 4 + u32_at(bytes, footer));
    assert_eq!(modules.last().unwrap().end, bytes.len() - 8);
    modules
}

/// What a module holds.
pub(super) fn open_module(module: &[u8]) -> Vec<u8> {
    module::open_whole(&cipher(), module).unwrap().to_vec()
}
