//! Who writes a catalogue: a hand-over from one node to another and back, and an authority that runs twice.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{
    crash::killed,
    harness::Node,
    office::{DEADLINE, Site, eventually, seal},
};

const PRODUCT: &str = "weather";

fn release(site: &Site, edition: &str) {
    site.node.ok(&["inventory", "release", PRODUCT, edition]);
}

/// Waits until a node writes both the full chain and the one the public reads.
fn writes_both_chains(site: &Site) {
    eventually("the node is the authority of both chains", || {
        let catalogues = site.catalogues();
        let all = catalogues.iter().all(|catalogue| catalogue["written_here"] == true);
        (catalogues.len() == 2 && all).then_some(())
    });
}

/// Ids of the objects with rows of editions that a node knows.
fn edition_files(node: &Node) -> Vec<String> {
    let list = node.json(&["object", "list"]);
    let objects = list["objects"].as_array().unwrap();
    objects
        .iter()
        .filter(|object| object["kind"] == "edition-file")
        .map(|object| object["storage_id"].as_str().unwrap().to_owned())
        .collect()
}

/// The number and hash of the newest version here, of the full chain where there is one.
fn newest(node: &Node) -> (u64, String) {
    let shown = node.json(&["inventory", "show"]);
    (
        shown["seq"].as_u64().unwrap(),
        shown["root_sha256"].as_str().unwrap().to_owned(),
    )
}

/// Waits until a node has every file of the catalogue and finds nothing wrong with it.
fn is_sound(node: &Node) {
    let begun = Instant::now();
    loop {
        let run = node.run(&["inventory", "verify", "--json"]);
        if run.code == 0 {
            let verified: Value = serde_json::from_str(&run.stdout).unwrap();
            assert_eq!(verified["findings"], Value::Array(Vec::new()), "{verified}");
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "never sound: {}{}", run.stdout, run.stderr);
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Forks that a node tells of its catalogues now.
fn forks(site: &Site) -> Vec<String> {
    let catalogues = site.catalogues();
    let alarms = catalogues.iter().filter_map(|catalogue| catalogue["alarm"].as_str());
    alarms.map(str::to_owned).collect()
}

/// INV-259, INV-409: the authority hands the catalogue over, in a version of its own; the next one writes on at another node, on the
/// documents it followed until then. It releases what the old authority had sealed, and editions of its own. Readers of both domains
/// follow, the old authority among them, which can write no more. Who joins later follows the chain from its first version, across the
/// hand-over. Handed back by a process that dies before it told of it, it is told of by the next command.
#[test]
fn a_catalogue_is_handed_over_and_back() {
    let office = Site::founder();
    office.catalogue();
    office.product(PRODUCT);
    let agency = office.writer_of(&["main", "public"]);
    let reader = office.guest_of(&["main", "public"]);
    let public = office.guest_of(&["public"]);
    let sealed = office.seal(PRODUCT, 1);
    release(&office, &sealed);
    for site in [&agency, &reader, &public] {
        site.reads(PRODUCT, 1);
    }

    // To nobody who could not go on, and not by anybody else.
    let before = newest(&office.node);
    for to in [&reader, &public] {
        let id = to.id();
        let refused = ["may not publish in domain main", "next:"];
        office.node.fails(&["inventory", "hand-over", &id], 1, &refused);
    }
    let (office_id, agency_id) = (office.id(), agency.id());
    let hand_over = ["inventory", "hand-over", &agency_id];
    agency.node.fails(&hand_over, 1, &["only reads", &office_id, "next:"]);
    assert_eq!(newest(&office.node), before, "a refused hand-over wrote a version");

    // An edition is under embargo while the catalogue changes hands.
    let waiting = office.seal(PRODUCT, 2);
    office.node.ok(&hand_over);
    writes_both_chains(&agency);
    for object in edition_files(&office.node) {
        eventually("the edition's bytes are at the new authority", || {
            let dump = ["object", "hexdump", &object, "--length", "16"];
            (agency.node.run(&dump).code == 0).then_some(())
        });
    }
    let handed = newest(&office.node);
    assert_eq!(newest(&agency.node), handed);
    let late_release = ["inventory", "release", PRODUCT, &waiting];
    for args in [&late_release[..], &hand_over] {
        office.node.fails(args, 1, &["only reads", &agency_id, "next:"]);
    }
    // It may tell of its own last version, and nothing is left to tell.
    office.node.ok(&["inventory", "announce"]);
    assert_eq!(newest(&office.node), handed, "the old authority wrote on");

    release(&agency, &waiting);
    for site in [&agency, &reader, &public, &office] {
        site.reads(PRODUCT, 2);
    }
    let own = agency.seal(PRODUCT, 3);
    release(&agency, &own);
    let late = office.guest_of(&["main", "public"]);
    for site in [&agency, &reader, &public, &office, &late] {
        site.reads(PRODUCT, 3);
    }
    let written = newest(&agency.node);
    assert!(written.0 > handed.0, "{written:?} after {handed:?}");
    for site in [&reader, &office, &late] {
        eventually("the new authority's version is the newest", || {
            (newest(&site.node) == written).then_some(())
        });
        is_sound(&site.node);
        assert_eq!(forks(site), Vec::<String>::new());
    }
    is_sound(&agency.node);
    is_sound(&public.node);

    // Back, by a process that is killed once the version is there and nobody knows of it.
    let agency = agency.stop();
    killed(&agency, "inventory.spread", &["inventory", "hand-over", &office_id]);
    agency.ok(&["inventory", "announce"]);
    let agency = Site::of(agency);
    writes_both_chains(&office);
    let last = office.seal(PRODUCT, 4);
    release(&office, &last);
    for site in [&office, &agency, &reader, &public, &late] {
        site.reads(PRODUCT, 4);
        assert_eq!(forks(site), Vec::<String>::new());
    }
    agency
        .node
        .fails(&["inventory", "rollback", PRODUCT], 1, &["only reads", &office_id]);
    is_sound(&agency.node);
}

/// INV-8, INV-409: two copies of an authority's home each write the next version. Every node raises the alarm; a reader keeps the version it
/// holds, until the authority signs the one after, which names one of the two, and goes over to that. What the public reads is a chain
/// of its own, and goes on with the next version of that (DESIGN §10).
#[test]
fn an_authority_that_runs_twice_is_an_alarm_until_it_says_which_version_counts() {
    run_twice(1);
}

/// INV-409: the same when each copy has sealed and released before anybody noticed: readers go over to two versions at once.
#[test]
fn two_copies_that_wrote_several_versions_are_settled_like_those_of_one() {
    run_twice(2);
}

/// An authority runs twice, and each copy writes so many versions, one or two, that the other one does not know.
/// A home that was restored from an older copy takes over the versions that its site wrote since, and writes the next one on them.
#[test]
fn a_restored_home_goes_on_where_its_catalogue_is() {
    let office = Site::founder();
    office.catalogue();
    office.product(PRODUCT);
    let member = office.guest_of(&["main", "public"]);
    let first = office.seal(PRODUCT, 1);
    release(&office, &first);
    member.reads(PRODUCT, 1);

    let node = office.stop();
    let backup = node.copy();
    let office = Site::of(node);
    let second = office.seal(PRODUCT, 2);
    release(&office, &second);
    member.reads(PRODUCT, 2);
    let last = newest(&office.node);
    eventually("the member holds the newest version", || {
        (newest(&member.node) == last).then_some(())
    });
    drop(office.stop());

    let restored = Site::of(backup);
    eventually("the restored home holds what its site wrote", || {
        (newest(&restored.node) == last).then_some(())
    });
    restored.reads(PRODUCT, 2);
    let third = restored.seal(PRODUCT, 3);
    release(&restored, &third);
    member.reads(PRODUCT, 3);
    assert_eq!(newest(&restored.node).0, last.0 + 2);
    assert_eq!(forks(&member), Vec::<String>::new());
    is_sound(&restored.node);
}

fn run_twice(versions: u64) {
    let office = Site::founder();
    office.catalogue();
    office.product(PRODUCT);
    let member = office.guest_of(&["main", "public"]);
    let public = office.guest_of(&["public"]);
    let first = office.seal(PRODUCT, 1);
    release(&office, &first);
    // Either all copies know both editions, and each releases one; or each seals its own as well.
    let sealed = (versions == 1).then(|| (office.seal(PRODUCT, 2), office.seal(PRODUCT, 3)));
    for site in [&member, &public] {
        site.reads(PRODUCT, 1);
    }
    let base = newest(&office.node);
    eventually("the member holds the newest version", || {
        (newest(&member.node) == base).then_some(())
    });

    let left = office.stop();
    let right = left.copy();
    let (two, three) = sealed.unwrap_or_else(|| (seal(&left, PRODUCT, 2), seal(&right, PRODUCT, 3)));
    left.ok(&["inventory", "release", PRODUCT, &two]);
    right.ok(&["inventory", "release", PRODUCT, &three]);
    let ((left_seq, left_root), (right_seq, right_root)) = (newest(&left), newest(&right));
    assert_eq!((left_seq, right_seq), (base.0 + versions, base.0 + versions));
    assert_ne!(left_root, right_root);

    // The first of them is heard, and goes away; then the other one comes.
    let left = Site::of(left);
    for site in [&member, &public] {
        site.reads(PRODUCT, 2);
        assert_eq!(forks(site), Vec::<String>::new());
    }
    drop(left.stop());
    let right = Site::of(right);
    for site in [&member, &public, &right] {
        let told = eventually("a fork is told of", || {
            let told = forks(site);
            (!told.is_empty()).then_some(told)
        });
        assert!(told.iter().all(|fork| fork.contains("2 different roots")), "{told:?}");
        let status = site.node.json(&["status"]);
        let warnings = status["warnings"].as_array().unwrap();
        let told = |warning: &Value| {
            warning
                .as_str()
                .is_some_and(|text| text.contains("two different roots"))
        };
        assert!(warnings.iter().any(told), "{status}");
    }
    for site in [&member, &public] {
        assert_eq!(site.node.rows(&Site::query(PRODUCT)), ["2"]);
    }
    assert_eq!(newest(&member.node), (left_seq, left_root));

    // A version that is not public settles the full chain, and says nothing of the other.
    let four = right.seal(PRODUCT, 4);
    member.reads(PRODUCT, 3);
    let settled = newest(&right.node);
    assert_eq!(settled.0, base.0 + versions + 1);
    eventually("the member holds the version that names one of the two", || {
        (newest(&member.node) == settled).then_some(())
    });
    assert_eq!(public.node.rows(&Site::query(PRODUCT)), ["2"]);
    assert!(!forks(&public).is_empty());

    release(&right, &four);
    for site in [&right, &member, &public] {
        site.reads(PRODUCT, 4);
        eventually("the forks are settled", || forks(site).is_empty().then_some(()));
    }
    // Who comes now takes the way that counts.
    let late = right.guest_of(&["main", "public"]);
    late.reads(PRODUCT, 4);
    eventually("no fork is left for who comes later", || {
        forks(&late).is_empty().then_some(())
    });
    is_sound(&right.node);
    eventually("the member holds the newest version", || {
        (newest(&member.node) == newest(&right.node)).then_some(())
    });
}
