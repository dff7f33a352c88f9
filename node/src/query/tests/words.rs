//! Names, allowed statements, and errors in words.

use std::sync::Arc;

use super::fixture::*;
use crate::error::{ApiError, ErrorKind};

fn node() -> Node {
    let table = Arc::new(numbers(&[(0, 3)]));
    Node::default()
        .with("main", "weather", table.clone())
        .with("main", "Weather 2", table.clone())
        .with("lab", "weather", table)
}

async fn failure(sql: &str) -> ApiError {
    query_on(node(), sql, PLAIN).await.unwrap_err()
}

#[tokio::test]
async fn tables_are_found_by_every_name() {
    for name in [
        "weather",
        "WEATHER",
        "main.weather",
        "\"weather\"",
        "\"Weather 2\"",
        "lab.weather",
        "sovm.main.weather",
        "main.\"Weather 2\"",
    ] {
        let (found, _) = query_on(node(), &format!("select count(*) from {name}"), PLAIN)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(found, ["| 3 |"], "{name}");
    }
}

#[tokio::test]
async fn statements_about_tables_work() {
    let (tables, _) = query_on(node(), "show tables", PLAIN).await.unwrap();
    assert!(
        tables.iter().any(|line| line.contains("| main | weather |")),
        "{tables:?}"
    );
    let (columns, _) = query_on(node(), "describe weather", PLAIN).await.unwrap();
    assert_eq!(columns, ["| n | Int64 | YES |"]);
    let (plan, _) = query_on(node(), "explain select n from weather", PLAIN).await.unwrap();
    assert!(plan.iter().any(|line| line.contains("SovmScan")), "{plan:?}");
    for sql in [
        "select 1",
        "with weather as (select 7 as n) select n from weather",
        "select * from generate_series(1, 2)",
    ] {
        query_on(Node::default(), sql, PLAIN)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

#[tokio::test]
async fn unknown_names_are_answered_with_close_ones() {
    let error = failure("select * from wether").await;
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.next.as_ref().unwrap().contains("weather"), "{error:?}");
    let error = failure("select * from weather2").await;
    assert!(error.next.as_ref().unwrap().contains("\"Weather 2\""), "{error:?}");
    let error = failure("select * from nothing_like_it").await;
    assert!(error.next.unwrap().contains("sovm table list"));
    let error = failure("select nn from weather").await;
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::NotFound, "there is no column nn")
    );
    assert!(error.next.unwrap().contains("did you mean n"));
    let error = query_on(Node::default(), "select * from t", PLAIN).await.unwrap_err();
    assert!(error.next.unwrap().contains("sovm ingest"));
}

#[tokio::test]
async fn broken_statements_are_the_users() {
    for sql in [
        "select n + 'x' + interval from weather",
        "select no_such_function(n) from weather",
        "select n from weather group by",
        "select sum(n), n from weather",
    ] {
        let error = failure(sql).await;
        assert!(
            matches!(error.kind, ErrorKind::BadInput | ErrorKind::NotFound),
            "{sql}: {error:?}"
        );
    }
    let error = failure("select n / 0 from weather").await;
    assert_eq!(error.kind, ErrorKind::Failed, "{error:?}");
}

/// A long statement is a deep tree; it is run all the same, on a thread as the binary has them.
#[test]
fn long_statements_are_run() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_stack_size(crate::cli::STACK_BYTES)
        .enable_all()
        .build()
        .unwrap();
    let any = (0..1_000).map(|n| format!("n = {n}")).collect::<Vec<_>>().join(" or ");
    // The engine's own planning of a chain of sums grows with the cube of its length: 800 take ten seconds.
    let sum = vec!["n"; 400].join(" + ");
    let list = (0..20_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    for filter in [any, format!("{sum} >= 0"), format!("n in ({list})")] {
        let run = async move { query_on(node(), &format!("select count(*) from weather where {filter}"), PLAIN).await };
        let (found, _) = runtime.block_on(runtime.spawn(run)).unwrap().unwrap();
        assert_eq!(found, ["| 3 |"]);
    }
}

/// The file system is out of reach of any statement.
#[tokio::test]
async fn files_cannot_be_read() {
    for sql in [
        "select * from '/etc/passwd'",
        "select * from read_csv('/etc/passwd')",
        "select * from \"/etc/passwd\"",
    ] {
        let error = failure(sql).await;
        assert!(
            matches!(error.kind, ErrorKind::BadInput | ErrorKind::NotFound),
            "{sql}: {error:?}"
        );
    }
}
