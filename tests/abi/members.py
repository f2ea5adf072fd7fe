"""Every member of every struct of the plug-in interface has its line in the layout test.

usage: members.py HEADER LAYOUT-TEST
"""
import re
import sys

STRUCT = r"typedef struct KinetoPlugin_(\w+) \{(.*?)\} KinetoPlugin_\1;"
MEMBER = r"\(\*(\w+)\)\s*\(|(\w+)\s*;"


def main():
    header, test = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
    header = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    structs = re.findall(STRUCT, header, flags=re.S)
    missing, count = [], 0
    for struct, body in structs:
        # Members of one union share their line.
        body = re.sub(r"union \{[^}]*?(\w+;)\s*\}", r"\1", body, flags=re.S) if struct == "Metadata" else body
        for pair in re.findall(MEMBER, body):
            member = pair[0] or pair[1]
            count += 1
            if member != "unpaddedStructSize" and not re.search(rf"MEMBER\({struct}, {member},", test):
                missing.append(f"KinetoPlugin_{struct}.{member} has no line in {sys.argv[2]}")
    print("\n".join(missing + [f"{len(structs)} structs, {count} members"]))
    return 1 if missing or not structs else 0


sys.exit(main())
