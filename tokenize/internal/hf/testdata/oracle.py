"""Reads lines of base64 text from stdin and writes, for each, the ids of Python's tokenizers and the text that it makes of them, as JSON.

The argument is a tokenizer.json. Text is read with errors="replace"; no special token is put around it.
"""

import base64
import json
import sys

from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(sys.argv[1])
tokenizer.no_truncation()
tokenizer.no_padding()
for line in sys.stdin:
    text = base64.b64decode(line).decode(errors="replace")
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    back = base64.b64encode(tokenizer.decode(ids, skip_special_tokens=False).encode()).decode()
    print(json.dumps({"ids": ids, "back": back}, separators=(",", ":")))
