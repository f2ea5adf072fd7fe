"""Members of JSON outputs that were released stay: docs/*.schema.json requires each of frozen/json_members.txt.

usage: schemas.py SOURCE-DIRECTORY            fails if a released member is no longer required, or a new one is not listed
       schemas.py SOURCE-DIRECTORY --write    adds new ones to the list; never removes any
"""
import glob
import json
import os
import sys

FROZEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frozen", "json_members.txt")


def required_members(schema, root, at):
    """Paths of the members that a schema requires: traces[].name is a member of each item of the list traces."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    yield from (f"{at}.{name}" for name in schema.get("required", ()))
    for name, one in schema.get("properties", {}).items():
        yield from required_members(one, root, f"{at}.{name}")
    for key, place in (("items", f"{at}[]"), ("additionalProperties", f"{at}.*")):
        if isinstance(schema.get(key), dict):
            yield from required_members(schema[key], root, place)
    for one in schema.get("anyOf", ()):
        if "type" in one:
            yield from required_members(one, root, at)


def main():
    root = sys.argv[1]
    faults, members = [], set()
    for path in sorted(glob.glob(os.path.join(root, "docs", "*.schema.json"))):
        with open(path, encoding="utf-8") as file:
            schema = json.load(file)
        name = schema["properties"]["schema"]["const"]
        if schema["required"][0] != "schema" or not name.startswith("ckineto." + os.path.basename(path).split(".")[0] + "/"):
            faults.append(f"{path}: its first member must be schema, named after the file")
        members.update(required_members(schema, schema, name))
    with open(FROZEN, encoding="utf-8") as file:
        frozen = set(file.read().split())
    faults += [f"{name} was released and is no longer required" for name in sorted(frozen - members)]
    if "--write" in sys.argv:
        with open(FROZEN, "w", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in sorted(frozen | members))
    else:
        faults += [f"{name} is new: tests/abi/schemas.py . --write" for name in sorted(members - frozen)]
    print("\n".join(faults))
    return 1 if faults else 0


sys.exit(main())
