"""Checks a catalogue over its stored bytes: python3 verify.py DIRECTORY. One line for each break; status 1 if there is one."""
import hashlib, json, pathlib, sys

top, breaks = pathlib.Path(sys.argv[1]), []

def read(name, expected=None, parse=True):
    """A file and its SHA-256, which must be the expected one; (None, None) if there is nothing to go on with."""
    try:
        data = (top / name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if expected not in (None, digest):
            raise ValueError(f"has hash {digest}, not {expected}")
        return (json.loads(data) if parse else data), digest
    except (OSError, ValueError) as error:
        breaks.append(f"{name}: {error}")
        return None, None

standing = lambda entry: entry["state"] if isinstance(entry, dict) else entry
leaves, digests = {}, {}
# What the version before held: each product's leaf, each edition's entry or "tombstone".
base, base_named, base_editions = None, {}, {}
numbers = sorted(int(path.stem) for path in (top / "inventory").glob("[0-9]*.json"))
for seq in range(1, max(numbers, default=1) + 1):
    root, digests[seq] = read(f"inventory/{seq:012}.json")
    if root is None:
        base = None
        continue
    if root["seq"] != seq:
        breaks.append(f"root {seq} says it is {root['seq']}")
    named, editions = {product: item["leaf_sha256"] for product, item in root["products"].items()}, {}
    for product, leaf in named.items():
        if leaf not in leaves:
            leaves[leaf] = (read(f"inventory/leaves/{leaf}.json", leaf)[0] or {"editions": []})["editions"]
        editions.update({(product, entry["edition_id"]): entry for entry in leaves[leaf]})
    editions.update({(item["product_id"], item["edition_id"]): "tombstone" for item in root["retired"]})
    if "changes" in root and (base or seq == 1):
        if root["previous_root_sha256"] != base:
            breaks.append(f"root {seq} names {root['previous_root_sha256']} before it, which is {base}")
        differ = {key: (standing(base_editions.get(key)), standing(editions.get(key)))
                  for key in base_editions | editions if base_editions.get(key) != editions.get(key)}
        moved = {product: (base_named.get(product), named.get(product)) for product in base_named | named
                 if base_named.get(product) != named.get(product) or product in {key[0] for key in differ}}
        listed = {item["product_id"]: (item["leaf_sha256"]["from"], item["leaf_sha256"]["to"]) for item in root["changes"]}
        changes = {(item["product_id"], entry["edition_id"]): entry for item in root["changes"] for entry in item["entries"]}
        if listed != moved or {key: (entry["from"], entry["to"]) for key, entry in changes.items()} != differ:
            breaks.append(f"root {seq}: its change list is not what differs from root {seq - 1}")
        breaks += [f"root {seq}: {key} has another {name}" for key, entry in changes.items() if isinstance(editions.get(key), dict)
                   for name, value in entry.get("entry", {}).items() if editions[key].get(name) != value]
    base, base_named, base_editions = digests[seq], named, editions
current = read("CURRENT")[0] or {}
if (current.get("seq"), current.get("root_sha256")) != (max(numbers, default=None), digests.get(max(numbers, default=None))):
    breaks.append(f"CURRENT names {current}, not the newest root")
for (product, edition), entry in base_editions.items():
    folder = f"products/{product}/{edition}"
    manifest = read(f"{folder}/manifest.json", entry["manifest_sha256"])[0] if isinstance(entry, dict) else None
    for file in manifest["files"] if manifest else []:
        read(f"{f'products/{product}/data' if file['root'] == 'data' else folder}/{file['path']}", file["digests"]["sha256"], False)
print("\n".join(breaks) or f"{len(numbers)} roots, {len(leaves)} leaves: no break")
sys.exit(bool(breaks))
