//! Editions of a site that doesn't write the catalogue: it seals, the authority folds, the public reads after the release.

use serde_json::Value;

use crate::{
    crash::killed,
    editions::structures,
    office::{FLOW, Site, eventually},
};

/// The office writes the catalogue; the press may publish in its release domain.
struct Houses {
    office: Site,
    press: Site,
}

impl Houses {
    fn new() -> Self {
        let office = Site::founder();
        office.catalogue();
        office.product("weather");
        let press = office.writer_of(&["main"]);
        press.node.write("structures.json", structures("Weather"));
        knows_the_product(&press);
        Self { office, press }
    }

    /// Builds and seals at the press, and gives the edition's id.
    fn register(&self, number: u64) -> String {
        self.press.build("weather", number);
        let sealed = self.press.node.json(&["edition", "seal", "weather"]);
        assert_eq!(sealed["state"], Value::Null, "{sealed}");
        assert_eq!(sealed["seq"], Value::Null, "{sealed}");
        assert_eq!(sealed["registered_with"], self.authority(), "{sealed}");
        sealed["edition_id"].as_str().unwrap().to_owned()
    }

    fn authority(&self) -> Value {
        full(&self.office)["authority"].clone()
    }

    /// Waits until all of the edition has come to the office.
    fn arrives(&self, edition: &str) {
        eventually("the edition is whole at the office", || {
            let registrations = full(&self.office)["registrations"].clone();
            let registrations = registrations.as_array().unwrap();
            let of = |registration: &&Value| registration["edition_id"] == edition && registration["state"] == "whole";
            registrations.iter().any(|registration| of(&registration)).then_some(())
        });
    }
}

/// The catalogue that shows everything.
fn full(site: &Site) -> Value {
    let list = site.node.json(&["inventory", "list"]);
    let catalogues = list["catalogues"].as_array().unwrap();
    let found = catalogues.iter().find(|catalogue| catalogue["live_only"] == false);
    found.unwrap_or_else(|| panic!("{list}")).clone()
}

fn knows_the_product(site: &Site) {
    eventually("the product is known", || {
        let run = site.node.run(&["product", "list", "--json"]);
        (run.code == 0 && run.stdout.contains("weather")).then_some(())
    });
}

fn state(site: &Site, edition: &str) -> Option<String> {
    let list = site.node.json(&["edition", "list", "weather"]);
    let editions = list["editions"].as_array().unwrap();
    let found = editions.iter().find(|listed| listed["edition_id"] == edition)?;
    Some(found["state"].as_str().unwrap().to_owned())
}

/// INV-386, INV-403, INV-404, INV-409: a writer of the release domain seals, and no version is written until the authority folds; then the
/// edition is embargoed like any other, and the public reads it after its release. A mere reader registers nothing.
#[test]
fn a_publisher_seals_and_the_authority_folds() {
    let houses = Houses::new();
    let Houses { office, press } = &houses;
    let public = office.guest_of(&["public"]);
    let reader = office.guest_of(&["main"]);
    knows_the_product(&reader);
    let rows = reader
        .node
        .write("rows.csv", "station,at,degrees\nJFK,2013-01-01T05:00:00Z,1\n");
    let table = format!("{FLOW}={}", rows.display());
    reader.node.fails(
        &["edition", "build", "weather", "--table", &table],
        1,
        &["is a reader of the domain", "next:"],
    );
    reader
        .node
        .fails(&["edition", "seal", "weather"], 1, &["is a reader of the domain"]);
    // What only the authority may do is no publisher's either.
    press.node.fails(
        &["product", "create", "other", "--kind", "data", "--lifecycle", "final"],
        1,
        &["only reads"],
    );
    press.node.fails(&["inventory", "fold"], 1, &["only reads"]);

    let before = full(office)["version"].as_u64().unwrap();
    let edition = houses.register(7);
    assert_eq!(state(press, &edition).as_deref(), Some("sealed"));
    houses.arrives(&edition);
    assert_eq!(full(office)["version"], before, "asking writes nothing");
    assert_eq!(state(office, &edition), None);

    let folded = office.node.json(&["inventory", "fold", "--reason", "of the press"]);
    assert_eq!(folded["seq"], before + 1, "{folded}");
    assert_eq!(folded["kind"], "seal", "{folded}");
    assert_eq!(state(office, &edition).as_deref(), Some("embargoed"));
    assert_eq!(full(office)["registrations"], Value::Array(Vec::new()));
    let again = office.node.json(&["inventory", "fold"]);
    assert_eq!(
        (&again["seq"], &again["refused"]),
        (&Value::Null, &Value::Array(Vec::new())),
        "{again}"
    );

    let query = Site::query("weather");
    assert_ne!(public.node.run(&["sql", &query]).code, 0);
    office.node.ok(&["inventory", "release", "weather", &edition]);
    for site in [&public, press, office] {
        eventually("the rows can be read", || {
            let run = site.node.run(&["sql", &query, "--format", "csv"]);
            (run.code == 0).then(|| assert_eq!(run.stdout.lines().nth(1), Some("7")))
        });
    }
    eventually("the press follows", || {
        (state(press, &edition).as_deref() == Some("live")).then_some(())
    });
    for site in [office, press] {
        let verified = site.node.json(&["inventory", "verify"]);
        assert_eq!(verified["findings"], Value::Array(Vec::new()), "{verified}");
    }

    // The next one is built on what is live; two on one base are both refused by name (INV-405).
    let second = houses.register(8);
    let third = houses.register(9);
    houses.arrives(&second);
    houses.arrives(&third);
    let run = office.node.run(&["inventory", "fold"]);
    run.failed(1, &["nothing could be recorded", "INV-405", &second, &third]);
}

/// INV-242, INV-404, INV-410: an authority that is killed between the documents of a registered edition and its version, or between the
/// version and what the domain is told, goes on with the same command; the edition is recorded once.
#[test]
fn a_fold_that_is_killed_goes_on() {
    let houses = Houses::new();
    let edition = houses.register(7);
    houses.arrives(&edition);
    let Houses { office, press } = houses;
    let before = full(&office)["version"].as_u64().unwrap();
    let Site { node, daemon } = office;
    daemon.stop();
    let fold = ["inventory", "fold"];
    let version = || {
        let list = node.json(&["inventory", "list"]);
        let catalogues = list["catalogues"].as_array().unwrap();
        let found = catalogues.iter().find(|catalogue| catalogue["live_only"] == false);
        found.unwrap()["version"].as_u64().unwrap()
    };
    killed(&node, "inventory.taken-in", &fold);
    assert_eq!(version(), before, "its documents are here, and no version");
    killed(&node, "inventory.spread", &fold);
    assert_eq!(version(), before + 1, "the version stands");
    let folded = node.json(&fold);
    assert_eq!(
        (&folded["seq"], &folded["refused"]),
        (&Value::Null, &Value::Array(Vec::new())),
        "{folded}"
    );
    assert_eq!(version(), before + 1, "it is recorded once");
    let verified = node.json(&["inventory", "verify"]);
    assert_eq!(verified["findings"], Value::Array(Vec::new()), "{verified}");

    let office = Site::of(node);
    assert_eq!(state(&office, &edition).as_deref(), Some("embargoed"));
    eventually("the press was told", || {
        (state(&press, &edition).as_deref() == Some("embargoed")).then_some(())
    });
}

/// INV-269, INV-403: a publisher that is killed between its seal and the step that asks has sealed and asked nobody; the same command asks,
/// and asks once.
#[test]
fn a_seal_that_is_killed_is_registered_by_the_next() {
    let houses = Houses::new();
    houses.press.build("weather", 7);
    let Houses { office, press } = houses;
    let Site { node, daemon } = press;
    daemon.stop();
    let seal = ["edition", "seal", "weather", "--release-at", "2036-07-30T08:30:00Z"];
    killed(&node, "inventory.registering", &seal);
    node.fails(
        &["edition", "build", "weather"],
        1,
        &["not registered yet", "sovm edition seal weather"],
    );
    let again = ["edition", "seal", "weather"];
    let sealed = node.json(&again);
    assert_eq!(
        (&sealed["repaired"], &sealed["release_at"]),
        (&Value::Bool(true), &Value::from("2036-07-30T08:30:00Z"))
    );
    node.fails(&again, 1, &["no unsealed edition"]);
    let edition = sealed["edition_id"].as_str().unwrap().to_owned();
    let press = Site::of(node);
    let houses = Houses { office, press };
    houses.arrives(&edition);
    assert_eq!(full(&houses.office)["registrations"].as_array().unwrap().len(), 1);
    houses.office.node.ok(&["inventory", "fold"]);
    let list = houses.office.node.json(&["edition", "list", "weather"]);
    assert_eq!(list["editions"][0]["release_at"], "2036-07-30T08:30:00Z", "{list}");
}
