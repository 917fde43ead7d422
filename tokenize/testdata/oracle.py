"""Reads lines of base64 text from stdin and writes for each the ids of Python's tiktoken, as JSON. The argument is the encoding's name."""

import base64
import json
import sys

import tiktoken

encoding = tiktoken.get_encoding(sys.argv[1])
for line in sys.stdin:
    text = base64.b64decode(line).decode(errors="replace")
    print(json.dumps(encoding.encode(text, allowed_special="all"), separators=(",", ":")))
