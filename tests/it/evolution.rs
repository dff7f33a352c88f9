//! Columns that change: on one node through every refusal, and on two that tell each other.

use std::process::{Child, Stdio};

use crate::harness::Node;

/// A node that runs until the test is over.
struct Daemon(Child);

impl Daemon {
    fn start(node: &Node) -> Self {
        let child = node.command(&["run"]).stdout(Stdio::null()).spawn().unwrap();
        let daemon = Self(child);
        node.ok(&["status", "--wait", "60s"]);
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn column_names(table: &serde_json::Value) -> Vec<&str> {
    let columns = table["columns"].as_array().unwrap();
    columns.iter().map(|column| column["name"].as_str().unwrap()).collect()
}

/// SOP-15, SOP-16, SOP-17, SOP-19: every kind of change on a table with rows; what the file or the command cannot have is refused by
/// name, with the next command.
#[test]
fn a_table_changes_its_columns() {
    let node = Node::init();
    let schema = node.write(
        "rain.schema",
        "station text not null\nmm int32\nprice decimal(5,2)\nnote text\n",
    );
    node.ok(&["table", "create", "rain", "--schema", schema.to_str().unwrap()]);
    node.write("a.csv", "station,mm,price,note\nnorth,3,1.50,x\nsouth,-4,,y\n");
    node.ok(&["ingest", "rain", "a.csv"]);

    node.write("b.csv", "station,mm,gust\nwest,5,7.5\n");
    node.fails(
        &["ingest", "rain", "b.csv"],
        1,
        &["gust", "sovm table add-column rain gust TYPE", "nothing was published"],
    );
    node.write("b.ndjson", "{\"station\": \"west\", \"gust\": 7.5}\n");
    node.fails(&["ingest", "rain", "b.ndjson"], 1, &["gust", "add-column rain gust"]);
    let added = node.json(&["table", "add-column", "rain", "gust", "float64"]);
    assert_eq!(added["command"], "table-alter");
    assert_eq!(column_names(&added), ["station", "mm", "price", "note", "gust"]);
    let first_id = added["columns"][4]["field_id"].clone();
    node.ok(&["ingest", "rain", "b.csv"]);
    assert_eq!(
        node.rows("select station, gust from rain order by station"),
        ["north,", "south,", "west,7.5"]
    );

    node.ok(&["table", "widen-column", "rain", "mm", "int64"]);
    node.ok(&["table", "widen-column", "rain", "price", "decimal(10,2)"]);
    node.ok(&["table", "rename-column", "rain", "note", "remark"]);
    node.write("c.csv", "station,mm,price,remark\neast,5000000000,12345.67,z\n");
    node.ok(&["ingest", "rain", "c.csv"]);
    assert_eq!(
        node.rows("select station, mm, price, remark from rain where mm <> 5 order by mm"),
        ["south,-4,,y", "north,3,1.50,x", "east,5000000000,12345.67,z"]
    );
    assert_eq!(node.rows("select station from rain where price = 1.5"), ["north"]);

    let dropped = node.json(&["table", "drop-column", "rain", "gust"]);
    assert_eq!(dropped["dropped_columns"], 1);
    let again = node.json(&["table", "add-column", "rain", "gust", "text"]);
    assert_ne!(again["columns"][4]["field_id"], first_id, "an id was given twice");
    assert_eq!(node.rows("select count(*) from rain where gust is null"), ["4"]);
    assert_eq!(node.json(&["object", "verify"])["objects"].as_array().unwrap().len(), 3);

    for (args, words) in [
        (
            &["widen-column", "rain", "mm", "int32"][..],
            &["would not hold", "add-column rain mm_2 int32"][..],
        ),
        (
            &["widen-column", "rain", "remark", "int64"],
            &["text cannot be widened"],
        ),
        (&["rename-column", "rain", "mm", "REMARK"], &["remark", "already"]),
        (&["add-column", "rain", "mm", "int8"], &["mm", "already"]),
        (&["drop-column", "rain", "nothing"], &["nothing", "table describe rain"]),
        (&["add-column", "storm", "x", "int8"], &["storm", "table list"]),
    ] {
        let mut command = vec!["table"];
        command.extend(args);
        node.fails(&command, 1, words);
    }
}

/// SOP-19, SOP-138: columns changed at one node, rows written there before and after, the same answer at the other.
#[test]
fn changed_columns_reach_the_other_node() {
    let (here, there) = (Node::init(), Node::init());
    here.write("a.csv", "id,old,gone\n1,a,x\n2,b,y\n");
    here.ok(&["ingest", "t", "a.csv"]);
    let _here = Daemon::start(&here);
    let ticket = here.json(&["invite", "--role", "reader", "--expires", "10m", "--yes", "--no-wait"]);
    there.ok(&["join", ticket["ticket"].as_str().unwrap(), "--yes"]);
    there.ok(&["sync", "--wait", "60s"]);
    assert_eq!(there.rows("select count(*) from t"), ["2"]);

    here.ok(&["table", "add-column", "t", "late", "decimal(4,1)"]);
    here.ok(&["table", "drop-column", "t", "gone"]);
    here.ok(&["table", "rename-column", "t", "old", "new"]);
    here.ok(&["table", "widen-column", "t", "late", "decimal(12,1)"]);
    here.write("b.csv", "id,new,late\n3,c,123456.5\n");
    here.ok(&["ingest", "t", "b.csv"]);
    there.ok(&["sync", "--wait", "60s"]);
    let query = "select * from t where id >= 2 order by id";
    assert_eq!(here.rows(query), ["2,b,", "3,c,123456.5"]);
    assert_eq!(there.rows(query), here.rows(query));
    let described = |node: &Node| node.json(&["table", "describe", "t"])["columns"].clone();
    assert_eq!(described(&there), described(&here));
    // Whoever may not write may not change columns either.
    there.fails(&["table", "add-column", "t", "x", "text"], 1, &["reader"]);
}

/// SOP-138, SOP-154: two writers change columns without knowing of each other. Once they met they agree, and rows written then name
/// a version that both find.
#[test]
fn columns_changed_apart_come_together() {
    let (here, there) = (Node::init(), Node::init());
    here.write("a.csv", "id,note\n1,x\n");
    here.ok(&["ingest", "t", "a.csv"]);
    let _here = Daemon::start(&here);
    let invite = here.json(&["invite", "--role", "writer", "--no-wait"]);
    let (id, ticket) = (invite["id"].as_str().unwrap(), invite["ticket"].as_str().unwrap());
    let mut joining = there.command(&["join", ticket]);
    let mut joining = joining.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let code = loop {
        let waited = here.json(&["invite", "wait", id, "--timeout", "5s"]);
        if let Some(code) = waited["state"]["code"].as_str() {
            break code.to_owned();
        }
        assert!(std::time::Instant::now() < deadline, "nobody came: {waited}");
    };
    here.ok(&["invite", "confirm", id, &code]);
    assert!(joining.wait().unwrap().success());
    there.ok(&["sync", "--wait", "60s"]);

    // No node runs there, so what it does stays with it until it syncs.
    there.ok(&["table", "add-column", "t", "wind", "int32"]);
    there.ok(&["table", "drop-column", "t", "note"]);
    there.write("b.csv", "id,wind\n2,20\n");
    there.ok(&["ingest", "t", "b.csv"]);
    here.ok(&["table", "add-column", "t", "Wind", "text"]);
    here.ok(&["table", "rename-column", "t", "note", "remark"]);
    here.write("c.csv", "id,Wind,remark\n3,strong,z\n");
    here.ok(&["ingest", "t", "c.csv"]);
    let _there = Daemon::start(&there);
    let meet = || {
        // The first tells both what there is, the second waits for the bytes.
        there.ok(&["sync", "--wait", "60s"]);
        here.ok(&["sync", "--wait", "60s"]);
    };
    meet();

    let described = |node: &Node| node.json(&["table", "describe", "t"]);
    let (table, other) = (described(&there), described(&here));
    assert_eq!(table["columns"], other["columns"]);
    let names = column_names(&table);
    assert_eq!((names.len(), names[0]), (3, "id"));
    assert!(names[1..].iter().any(|name| name.contains('~')), "{names:?}");
    let query = "select * from t order by id";
    assert_eq!(there.rows("select count(*) from t"), ["3"]);
    assert_eq!(there.rows(query), here.rows(query));

    there.write("d.csv", "id\n4\n");
    there.ok(&["ingest", "t", "d.csv"]);
    meet();
    here.write("e.csv", "id\n5\n");
    here.ok(&["ingest", "t", "e.csv"]);
    meet();
    assert_eq!(here.rows("select id from t order by id"), ["1", "2", "3", "4", "5"]);
    there.ok(&["sync", "--wait", "60s"]);
    assert_eq!(there.rows(query), here.rows(query));
}
