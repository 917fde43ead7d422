# Writes aiperf's verdict on config files and on mutations of them, one a line, as JSON: {"file", "line", "kind", "valid"}. A mutation changes one
# line that holds a key with a value: drop takes it out, misspell puts an x behind the key, list, word and null put [1], oops and nothing in the
# value's place.
# kind "" is the file as it is. Run with the Python of an aiperf 0.13.0 installation:
#   python testdata/verdicts.py own    > testdata/verdicts-own.jsonl      every mutation of prefire's own templates
#   python testdata/verdicts.py aiperf > testdata/verdicts-aiperf.jsonl   aiperf's templates, and two mutations of each
#   python testdata/verdicts.py all    > FILE                            every mutation of aiperf's
import json
import logging
import random
import re
import sys
import tempfile
from pathlib import Path

import aiperf.config
from aiperf.config.loader.core import validate_config_file

LINE = re.compile(r"^(\s*(?:- )?)([A-Za-z_]+):( +)([^\s#].*)$")
KINDS = ["drop", "misspell", "list", "word", "null"]


def mutate(lines, at, kind):
    m = LINE.match(lines[at])
    key = m[1] + m[2]
    new = {"drop": [], "misspell": [f"{key}x:{m[3]}{m[4]}"], "list": [f"{key}:{m[3]}[1]"], "word": [f"{key}:{m[3]}oops"], "null": [f"{key}:"]}[kind]
    return lines[:at] + new + lines[at + 1 :]


def verdict(lines):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("\n".join(lines) + "\n")
        f.flush()
        try:
            validate_config_file(Path(f.name))
            return True, ""
        except Exception as e:
            return False, str(e)


logging.disable(logging.CRITICAL)
which = sys.argv[1]
folder = Path("templates") if which == "own" else Path(aiperf.config.__file__).parent / "templates"
rng = random.Random(0)
for path in sorted(folder.glob("*.yaml")):
    lines = path.read_text().rstrip("\n").split("\n")
    cases = [(at, kind) for at, line in enumerate(lines) if LINE.match(line) for kind in KINDS]
    if which == "aiperf":
        cases = sorted(rng.sample(cases, 2))
    for at, kind in [(0, "")] + cases:
        valid, error = verdict(mutate(lines, at, kind) if kind else lines)
        out = {"file": path.name, "line": at + 1, "kind": kind, "valid": valid}
        if which == "all":
            out["error"] = error
        print(json.dumps(out))
