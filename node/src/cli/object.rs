//! `sovm object`.

mod get;
mod put;
mod raw;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{
    Context,
    session::expect,
    status::{now_ms, stamped, when},
};
use crate::{
    api::{HexdumpReport, ObjectReport, Request, Response, VerifyReport},
    config::format_bytes,
    error::{ApiError, ErrorKind},
    output::{Output, TextTable},
};

/// Work with encrypted objects: put and get files, list, show, verify, dump
#[derive(Args, Debug)]
pub(super) struct ObjectArgs {
    #[command(subcommand)]
    command: ObjectCommand,
}

#[derive(Debug, Subcommand)]
enum ObjectCommand {
    Put(put::PutArgs),
    Get(get::GetArgs),
    /// List the objects this node knows
    List {
        /// Only those of this table
        #[arg(long, value_name = "TABLE")]
        table: Option<String>,
    },
    /// Show everything known of an object
    Show {
        /// Storage id or a unique beginning of it
        id: String,
        /// Write its signed manifest and access records, byte for byte, into this directory
        #[arg(long, value_name = "DIR")]
        raw: Option<PathBuf>,
    },
    /// Read objects in full, and compare every byte with the storage id, every tag and every stated figure
    Verify {
        /// Storage ids or unique beginnings. Default: all that are here
        ids: Vec<String>,
    },
    /// Show the encrypted bytes as they stand on disk
    Hexdump {
        /// Storage id or a unique beginning of it
        id: String,
        /// First byte to show
        #[arg(long, default_value_t = 0, value_name = "BYTE")]
        offset: u64,
        /// How many bytes to show, at most 1 MiB
        #[arg(long, default_value_t = 256, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
        length: u64,
    },
    /// Print the data key of an object as 64 hex digits, for DuckDB's footer_key_value
    Key {
        /// Storage id or a unique beginning of it
        id: String,
        /// Yes, print the secret
        #[arg(long)]
        yes_show_secret: bool,
    },
}

impl ObjectArgs {
    pub(super) async fn run(self, context: &Context<'_>) -> Result<u8, ApiError> {
        match self.command {
            ObjectCommand::Put(args) => args.run(context).await,
            ObjectCommand::Get(args) => args.run(context).await,
            ObjectCommand::List { table } => list(context, table).await,
            ObjectCommand::Show { id, raw: Some(dir) } => raw::run(context, id, &dir).await,
            ObjectCommand::Show { id, raw: None } => {
                let report = expect!(context.call(Request::ObjectShow { id }).await?, ObjectShow);
                let lines = describe(&report, now_ms());
                context.show(&Response::ObjectShow(report), |output| output.line(lines.join("\n")))
            }
            ObjectCommand::Verify { ids } => {
                let report = expect!(context.call(Request::ObjectVerify { ids }).await?, ObjectVerify);
                let shown = report.clone();
                context.show(&Response::ObjectVerify(report), |output| verified(&shown, output))
            }
            ObjectCommand::Hexdump { id, offset, length } => {
                let report = expect!(
                    context.call(Request::ObjectHexdump { id, offset, length }).await?,
                    ObjectHexdump
                );
                let text = hexdump(&report)?;
                let (from, size) = (report.offset, report.size_bytes);
                context.show(&Response::ObjectHexdump(report), |output| {
                    output.bytes(text.as_bytes())?;
                    output.note(format!("from byte {from} of {size}"));
                    Ok(())
                })
            }
            ObjectCommand::Key { id, yes_show_secret } => {
                if !yes_show_secret {
                    return Err(
                        ApiError::new(ErrorKind::Refused, "whoever has this key can read the object for ever")
                            .safe("nothing was shown")
                            .next(format!("sovm object key {id} --yes-show-secret")),
                    );
                }
                let report = expect!(context.call(Request::ObjectKey { id }).await?, ObjectKey);
                let key = report.dek_hex.clone();
                context.show(&Response::ObjectKey(report), |output| output.line(key))
            }
        }
    }
}

async fn list(context: &Context<'_>, table: Option<String>) -> Result<u8, ApiError> {
    let report = expect!(context.call(Request::ObjectList { table }).await?, ObjectList);
    let mut text = TextTable::new(&["object", "kind", "name", "state", ">rows stated", ">size", "made"]);
    for object in &report.objects {
        text.row([
            object.storage_id.chars().take(10).collect(),
            object.kind.clone().unwrap_or_default(),
            object.table.clone().or_else(|| object.name.clone()).unwrap_or_default(),
            object.state.word().to_owned(),
            object.rows_stated.map(|rows| rows.to_string()).unwrap_or_default(),
            object.size_bytes.map(format_bytes).unwrap_or_default(),
            object.created_ms.map(|at| stamped(at, now_ms())).unwrap_or_default(),
        ]);
    }
    context.show(&Response::ObjectList(report), |output| {
        if text.is_empty() {
            output.note("no object yet");
            return Ok(());
        }
        output.line(text.render())
    })
}

fn describe(report: &ObjectReport, now_ms: u64) -> Vec<String> {
    let summary = &report.summary;
    let mut lines = vec![
        format!("object      {}", summary.storage_id),
        format!("state       {}", summary.state.word()),
    ];
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push(format!("{name:<11} {value}"));
        }
    };
    add("why", report.reason.clone());
    add("kind", summary.kind.clone());
    add("table", summary.table.clone());
    add(
        "name",
        summary.name.clone().map(|name| format!("{name}, on this device")),
    );
    add("rows stated", summary.rows_stated.map(|rows| rows.to_string()));
    add("size", summary.size_bytes.map(|bytes| format!("{bytes} bytes, padded")));
    add("content", report.content_bytes.map(|bytes| format!("{bytes} bytes")));
    add("unpadded", report.exact_bytes.map(|bytes| format!("{bytes} bytes")));
    add("made", summary.created_ms.map(|at| stamped(at, now_ms)));
    add("producer", report.producer.clone());
    add("domain", report.domain.clone());
    add(
        "key",
        report
            .generation
            .map(|generation| format!("generation {generation}, {} access records", report.access_records)),
    );
    add("key ref", report.key_ref.clone());
    add("manifest", report.manifest.clone());
    add(
        "verified",
        Some(
            report
                .verified_whole_ms
                .map_or_else(|| "not as a whole".to_owned(), |at| when(at, now_ms)),
        ),
    );
    for (column, value) in &report.partition {
        add(
            "partition",
            Some(format!("{column} = {}", value.as_deref().unwrap_or("null"))),
        );
    }
    for bounds in &report.statistics {
        let bound = |bound: &Option<String>| bound.clone().unwrap_or_else(|| "?".to_owned());
        let nulls = bounds.nulls.map(|nulls| format!(", {nulls} nulls")).unwrap_or_default();
        add(
            "bounds",
            Some(format!(
                "{}: {} to {}{nulls}",
                bounds.column,
                bound(&bounds.min),
                bound(&bounds.max)
            )),
        );
    }
    lines
}

fn verified(report: &VerifyReport, output: &Output) -> Result<(), ApiError> {
    for object in &report.objects {
        if object.findings.is_empty() {
            output.line(format!("{} ok", object.storage_id))?;
        }
        for finding in &object.findings {
            output.line(format!("{} {finding}", object.storage_id))?;
        }
        if let Some(healing) = &object.healing {
            output.line(format!("  {healing}"))?;
        }
    }
    output.note(format!(
        "{} objects, {} read and compared",
        report.objects.len(),
        format_bytes(report.bytes)
    ));
    Ok(())
}

/// Offset, sixteen bytes in hex, the same as text.
fn hexdump(report: &HexdumpReport) -> Result<String, ApiError> {
    let bytes = hex::decode(&report.hex).map_err(ApiError::bug)?;
    let mut text = String::new();
    for (index, row) in bytes.chunks(16).enumerate() {
        let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let ascii: String = row
            .iter()
            .map(|byte| {
                if (0x20..0x7f).contains(byte) {
                    char::from(*byte)
                } else {
                    '.'
                }
            })
            .collect();
        text.push_str(&format!(
            "{:08x}  {:<47}  {ascii}\n",
            report.offset + 16 * index as u64,
            digits.join(" ")
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexdump_shows_the_magic() {
        let report = HexdumpReport {
            storage_id: String::new(),
            offset: 0,
            size_bytes: 18,
            hex: format!("50415245{}", "00".repeat(14)),
        };
        insta::assert_snapshot!(hexdump(&report).unwrap(), @r"
        00000000  50 41 52 45 00 00 00 00 00 00 00 00 00 00 00 00  PARE............
        00000010  00 00                                            ..
        ");
    }
}
