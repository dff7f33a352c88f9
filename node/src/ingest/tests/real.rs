//! Files people have, not files we made.

use std::path::Path;

use super::*;

fn asset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name)
}

#[test]
fn weather_by_default_and_with_na() {
    let source = || Source::open(SourceSpec::files([asset("weather.csv.gz")])).unwrap();
    let (columns, batch) = load(source(), &null_na()).unwrap();
    assert_eq!(
        types(&columns),
        "origin text, year int64, month int64, day int64, hour int64, temp float64, dewp float64, humid float64, \
         wind_dir int64, wind_speed float64, wind_gust float64, precip float64, pressure float64, visib float64, \
         time_hour timestamp_us"
    );
    assert_eq!(batch.num_rows(), 26_115);
    assert_eq!(
        rows(&batch)[0],
        "EWR,2013,1,1,1,39.02,26.06,59.37,270,10.357019999999999,-,0.0,1012.0,10.0,2013-01-01T06:00:00Z"
    );
    assert_eq!(batch.column(10).null_count(), 20_778);
    // Without the option the word stays, and the columns with it are text.
    let (columns, batch) = load(source(), &Options::default()).unwrap();
    assert!(types(&columns).contains("wind_gust text"));
    assert_eq!(batch.column(10).null_count(), 0);
}

#[test]
fn airports() {
    let (columns, batch) = load(
        Source::open(SourceSpec::files([asset("airports.csv.gz")])).unwrap(),
        &null_na(),
    )
    .unwrap();
    assert_eq!(
        types(&columns),
        "faa text, name text, lat float64, lon float64, alt int64, tz int64, dst text, tzone text"
    );
    assert_eq!(batch.num_rows(), 1_458);
}

/// The first quoted field stands on line 53,384; whoever decides by a sample loses the rows from there.
#[test]
fn population_with_late_quotes() {
    let Some(path) = shared("population.csv.gz") else {
        return;
    };
    let (columns, batch) = load(Source::open(SourceSpec::files([path])).unwrap(), &Options::default()).unwrap();
    assert_eq!(
        types(&columns),
        "LocID int64, Location text, Year int64, Sex text, AgeGrp text, AgeGrpStart int64, Value int64"
    );
    assert_eq!(batch.num_rows(), 346_332);
    assert_eq!(
        rows(&batch.slice(53_382, 1))[0],
        "158,China, Taiwan Province of China,1950,Male,0-4,0,650827"
    );
}

/// A file too large to travel with the project: from `SOVM_TEST_DATA`, or skipped with a word.
fn shared(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("SOVM_TEST_DATA").map(|dir| PathBuf::from(dir).join(name));
    let found = path.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: {name} is not here; set SOVM_TEST_DATA to the directory that holds it");
    }
    found
}
