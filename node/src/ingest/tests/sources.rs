use std::{
    io::{self, Read},
    sync::{Arc, Mutex},
};

use sovm_object::types::ColumnType;

use super::*;
use crate::ingest::{Pass, Progress};

fn open_error(name: &str, content: impl AsRef<[u8]>) -> IngestError {
    open(name, content).unwrap_err()
}

#[test]
fn what_is_no_input_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Source::open(SourceSpec::files([dir.path().join("no.csv")])).unwrap_err();
    assert!(
        matches!(&missing, IngestError::Missing { file } if file.ends_with("no.csv")),
        "{missing}"
    );
    let directory = Source::open(SourceSpec::files([dir.path()])).unwrap_err();
    assert!(matches!(directory, IngestError::Directory { .. }) && directory.hint().is_some());
    assert!(matches!(
        Source::open(SourceSpec::files(Vec::<PathBuf>::new())).unwrap_err(),
        IngestError::NoInput
    ));
    assert!(matches!(open_error("a.csv", ""), IngestError::Empty { .. }));
    assert!(matches!(open_error("a.csv.gz", gzip(b"")), IngestError::Empty { .. }));
    assert!(matches!(
        open_error("a.txt", "a\n1\n"),
        IngestError::UnknownFormat { .. }
    ));
    assert!(matches!(open_error("a", "a\n1\n"), IngestError::UnknownFormat { .. }));
    assert!(matches!(
        open_error("a.csv.zip", b"PK\x03\x04..."),
        IngestError::Zip { .. }
    ));
    assert!(matches!(
        open_error("a.csv.gz", "a\n1\n"),
        IngestError::NotCompressed { expected: "gzip", .. }
    ));
    assert!(matches!(
        open_error("a.csv.zst", "a\n1\n"),
        IngestError::NotCompressed { expected: "zstd", .. }
    ));
    let (csv, json) = (file("a.csv", "a\n1\n"), file("a.json", "{}\n"));
    let mixed = Source::open(SourceSpec::files([csv.path.clone(), json.path.clone()])).unwrap_err();
    assert!(matches!(
        mixed,
        IngestError::MixedFormats {
            first_format: Format::Csv,
            other_format: Format::NdJson,
            ..
        }
    ));
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_named() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        }
    }
    let inputs = vec![Input::Stream {
        name: "pipe".into(),
        reader: Box::new(Broken),
    }];
    let error = Source::open(SourceSpec {
        inputs,
        format: None,
        spool_dir: std::env::temp_dir(),
    })
    .unwrap_err();
    assert_eq!(error.to_string(), "pipe: cannot be read: permission denied");
}

#[test]
fn an_option_says_the_format_where_the_name_does_not() {
    let csv = file("readings.txt", "a\n1\n");
    let spec = SourceSpec {
        format: Some(Format::Csv),
        ..SourceSpec::files([csv.path.clone()])
    };
    assert_eq!(
        load(Source::open(spec).unwrap(), &Options::default())
            .unwrap()
            .1
            .num_rows(),
        1
    );
}

#[test]
fn compressed_inputs_are_read_and_damage_is_named() {
    let text = format!("a,b\n{}", "1,x\n".repeat(100_000));
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let twice = [gzip(b"a,b\n1,x\n"), gzip(b"2,y\n")].concat();
    for (name, bytes, count) in [
        ("a.csv.gz", gzip(text.as_bytes()), 100_000),
        ("a.csv.zst", zstd.clone(), 100_000),
        ("members.csv.gz", twice, 2),
        // The content says what the name forgot.
        ("a.csv", gzip(text.as_bytes()), 100_000),
    ] {
        let (columns, batch) = load(open(name, bytes).unwrap(), &Options::default()).unwrap();
        assert_eq!(
            (types(&columns).as_str(), batch.num_rows()),
            ("a int64, b text", count),
            "{name}"
        );
    }
    let gz = gzip(text.as_bytes());
    for (name, bytes) in [
        ("cut.csv.gz", &gz[..gz.len() - 9]),
        ("cut.csv.zst", &zstd[..zstd.len() - 4]),
    ] {
        let error = open(name, bytes)
            .and_then(|source| load(source, &Options::default()))
            .unwrap_err();
        assert!(
            matches!(&error, IngestError::Unreadable { file, .. } if file.ends_with(name)),
            "{error}"
        );
    }
    let mut flipped = gz;
    let at = flipped.len() - 6;
    flipped[at] ^= 1;
    let error = load(open("bad.csv.gz", flipped).unwrap(), &Options::default()).unwrap_err();
    assert!(
        matches!(error, IngestError::Unreadable { .. }),
        "the checksum is checked: {error}"
    );
}

#[test]
fn a_pipe_is_read_twice_for_inference_and_once_without() {
    let text = format!("a\n{}", "1\n".repeat(50_000));
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for bytes in [text.clone().into_bytes(), gzip(text.as_bytes()), zstd] {
        let (columns, batch) = load(pipe(&bytes, None).unwrap(), &Options::default()).unwrap();
        assert_eq!((types(&columns).as_str(), batch.num_rows()), ("a int64", 50_000));
        let direct = collect(
            pipe(&bytes, None)
                .unwrap()
                .batches(&columns, &Options::default())
                .unwrap(),
        )
        .unwrap();
        assert_eq!(direct.num_rows(), 50_000);
    }
    assert_eq!(pipe("{\"a\":1}\n", None).unwrap().format(), Format::NdJson);
    assert!(matches!(pipe("", None).unwrap_err(), IngestError::Empty { file } if file == "standard input"));
}

/// A pipe with columns given is never spooled: it may be endless, and its rows come as they arrive.
#[test]
fn a_pipe_into_a_table_needs_no_spool() {
    let columns = [Column::new(1, "a", ColumnType::Int64, true)];
    let endless = io::Cursor::new(b"a\n".to_vec()).chain(Endless);
    let inputs = vec![Input::Stream {
        name: "sensor".into(),
        reader: Box::new(endless),
    }];
    let source = Source::open(SourceSpec {
        inputs,
        format: Some(Format::Csv),
        spool_dir: "/nowhere".into(),
    })
    .unwrap();
    let mut batches = source.batches(&columns, &Options::default()).unwrap();
    assert_eq!(batches.next().unwrap().unwrap().num_rows(), 8192);
}

struct Endless;
impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer
            .iter_mut()
            .enumerate()
            .for_each(|(index, byte)| *byte = if index % 2 == 0 { b'1' } else { b'\n' });
        Ok(buffer.len() / 2 * 2)
    }
}

#[test]
fn a_full_spool_directory_is_named() {
    let inputs = vec![Input::Stream {
        name: "pipe".into(),
        reader: Box::new(io::Cursor::new(b"a\n1\n".to_vec())),
    }];
    let mut source = Source::open(SourceSpec {
        inputs,
        format: None,
        spool_dir: "/nowhere/at/all".into(),
    })
    .unwrap();
    let error = source.infer(&Options::default()).unwrap_err();
    assert!(matches!(&error, IngestError::Spool { .. }), "{error}");
    // The pipe is used up; it is not taken for an empty one.
    assert!(matches!(
        source.infer(&Options::default()),
        Err(IngestError::AlreadyRead { .. })
    ));
}

#[test]
fn a_named_pipe_is_spooled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe.csv");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let writer = std::thread::spawn({
        let path = path.clone();
        move || std::fs::write(path, "a,b\n1,x\n2,y\n").unwrap()
    });
    let (columns, batch) = load(Source::open(SourceSpec::files([path])).unwrap(), &Options::default()).unwrap();
    writer.join().unwrap();
    assert_eq!((types(&columns).as_str(), rows(&batch).len()), ("a int64, b text", 2));
}

#[test]
fn several_files_are_one_input() {
    let (first, second) = (file("1.csv", "a,b\n1,x\n"), file("2.csv.gz", gzip(b"b,a\ny,2.5\n")));
    let paths = || [first.path.clone(), second.path.clone()];
    let (columns, batch) = load(Source::open(SourceSpec::files(paths())).unwrap(), &Options::default()).unwrap();
    assert_eq!(types(&columns), "a float64, b text");
    assert_eq!(rows(&batch), ["1.0,x", "2.5,y"]);
    let load_with = |content: &str| {
        let other = file("3.csv", content);
        load(
            Source::open(SourceSpec::files([first.path.clone(), other.path.clone()])).unwrap(),
            &Options::default(),
        )
        .unwrap_err()
        .to_string()
    };
    assert!(load_with("a,b,c\n1,x,2\n").ends_with("3.csv: column \"c\" is not one of a, b"));
    assert!(load_with("a\n1\n").ends_with("3.csv: has no column \"b\""));
    assert!(load_with("a,b\n1\n").ends_with("3.csv, line 2: 1 fields, but the header has 2"));
    // One header-only file among others is no trouble.
    let empty = file("4.csv", "a,b\n");
    let source = Source::open(SourceSpec::files([empty.path.clone(), first.path.clone()])).unwrap();
    assert_eq!(load(source, &Options::default()).unwrap().1.num_rows(), 1);
}

#[test]
fn progress_counts_the_bytes_of_each_pass() {
    let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let progress = {
        let seen = seen.clone();
        Arc::new(move |progress| seen.lock().unwrap().push(progress))
    };
    let options = Options {
        progress: Some(progress),
        ..Options::default()
    };
    let text = format!("a\n{}", "123456789\n".repeat(100_000));
    load(open("a.csv", &text).unwrap(), &options).unwrap();
    let seen = seen.lock().unwrap();
    for pass in [Pass::Infer, Pass::Load] {
        let bytes: Vec<u64> = seen
            .iter()
            .filter(|progress| progress.pass == pass)
            .map(|progress| progress.bytes)
            .collect();
        assert!(bytes.len() > 3 && bytes.is_sorted(), "{pass:?} {bytes:?}");
        assert_eq!(bytes.last(), Some(&(text.len() as u64)));
    }
    assert!(seen.iter().all(|progress| progress.total == Some(text.len() as u64)));
}
