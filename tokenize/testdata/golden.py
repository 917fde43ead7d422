"""Writes tokenize/testdata/golden.jsonl: varied strings with the ids that Python's tiktoken gives them.

    TIKTOKEN_CACHE_DIR=DIR python tokenize/testdata/golden.py > tokenize/testdata/golden.jsonl

Made with tiktoken 0.14.0. Each line has the text as base64 of its bytes, which are read with errors="replace", and the ids of the
encodings with allowed_special="all"; of the older ones and of o200k_harmony in every third line, and where a special token is written out.
Vocabularies that DIR does not have come over the network, or as files that the test TestVocabulary writes with -tiktoken.dir DIR.
"""

import base64
import json
import random

import tiktoken

encodings = {name: tiktoken.get_encoding(name) for name in ("o200k_base", "cl100k_base", "o200k_harmony", "r50k_base", "p50k_base", "p50k_edit")}
rng = random.Random(20)

fixed = [
    "", " ", "  ", "a", "\n", "\r\n", "\n \n", "\n\t\n", "hi\n \n\nfoo", "a \n ", "a\n  b", "a  b", "a   b   ", "\t\tx", "\u00a0x", "\u00a0\u00a0x",
    "\u2028x\u2029", "\u3000\u3000全角", "\x7f", "a\x7f", "\x00\x01\x1b[0m", "\x85 x", "hello world", "Hello, World!", "HELLO WORLD", "helloWorld",
    "HTTPServer getURLForID parseXMLDoc2", "don't DON'T Don'T we'll WE'LL they've I'm I'D you're 'tis 'S 'sail 'really 'velvet", "it\u017f it'\u017f IT'\u017f",
    "x'", "x'l", "x're", "'", "''s", "a''ll", "123", "1234", "1234567890", "3.14159", "1,000,000.00", "٣٤٥٦٧", "Ⅷ ½ ² ①②③④", "x1y22z333w4444",
    "/usr/local/bin/../lib//x\n/etc\r\n//", "http://example.org/a/b?c=d&e=f#g\n", "!!!\n\n/\n", "!/\n a", " !\r\n\r\nb", "-" * 80, "=" * 17 + "\n", "...",
    "a" * 65, "a" * 64, "ab" * 200, " " * 65, " " * 300, "\n" * 70, " \n" * 100, "\n " * 100, "\t" * 33, "xyzzy" * 60, "aB" * 90, "Ba" * 90,
    "<|endoftext|>", "<|endofprompt|>", "a<|endoftext|>b", "<|endoftext|><|endofprompt|>", " <|endoftext|> ", "<|endoftext|", "<|<|endoftext|>|>",
    "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>", "<|im_start|>user<|im_end|>", "a  <|endoftext|>  b", "\n<|endofprompt|>\n", "<||>", "<|",
    "日本語のテキスト", "中文字符测试,标点。", "한국어 텍스트", "Привет, мир! КАК дела?", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया",
    "สวัสดีชาวโลก", "xin chào thế giới", "İstanbul ıI", "ǅ ǈ ǋ ǲ ǅa aǅ Aǅ", "ʰa Aʰ AʰB AʰBC aʰBc", "ª º ˈ", "e\u0301 E\u0301 \u0301 \u0301A \u0301a \u0301ABC !\u0301 !!\u0301a 1\u0301",
    "A\u0301B\u0301C", "नि\u0902 ABC\u0301DEF", "𝐀𝐁𝐜 𝟏𝟐𝟑", "👍", "👍🏽", "👩‍👩‍👧‍👦 family", "🇩🇪🇫🇷", "a👍b 👍👍👍", "❤️ ☃︎", "\u200b\u200d\ufeff", "\ufffd", "\ue000\U000f0000",
    "\U00010d4a\U00010d70 \U0001c000", "\u1c89\u1c8a \ua7cb\ua7da\ua7db", "\U00010ec2 \U00016d43\U00016d70", "\u0378\u0380 \U000e0001\U000e0100",
    "def f(x):\n    return x ** 2\n\n\nclass A:\n\tpass\n", "if (a != b && c <= d) { return a->b[i++]; } // done\n", '{"key": "value", "n": [1, 2.5e-3, null]}\n',
    "SELECT * FROM t WHERE id IN (1,2,3);\n--\n", "$ ls -la | grep '^d' > /dev/null 2>&1\n", "<div class=\"x\">&amp;</div>\n", "# Title\n\n* item\n* item  \n\n> quote\n",
    "a\r\nb\r\n\r\nc", "\r\r\n\n\r", "word\n\n\n   next", "trailing   \n", "trailing   ", " leading", "   leading", "a\u2003b\u2003 c", "x\u1680y",
]
raw = [b"\xff", b"a\xffb", b"\xe2\x82", b"\xe2\x82x", b"\xf0\x9f\x91", b"\xf0\x9f\x91\xf0\x9f\x91\x8d", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
       b"\xf5\x80\x80\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xc2", b"\xc2\x41", b"\x80\x80", b" \xe2\x82 \xac", b"\xed\x9f", b"\xf4\x8f\xbf", b"\xfe\xff\n \n"]

pools = [
    "etaoin shrdlu ETAOIN ,.;:'", " \n\t\r", " \n a", "abcXYZ'sStTlLrReEvVdDmM ", "0123456789 .,-x", "éèüñßÄÖ ĐđŁłǅʰ\u0301\u0302a A", "漢字かなカナ한글。、 ",
    "👍🏽👩‍❤️🇩🇪 a", "!@#$%^&*()_+-=[]{}|;:,./<>?\n\r ", "\u00a0\u2028\u3000\u1680\x85 \x0b\x0cx", "АБВгде нПОЁё", "अआइकि\u0902् ", "(){}=+;\n    return_if", "\x00\x01\x1f\x7f\x80\ufeff\u200b~",
    "<|endoftext|> p", "ABC\u0301\u02b0\u0661x/\n'",
]
strings = [s.encode() for s in fixed] + raw
for pool in pools:
    for _ in range(12):
        strings.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 60))).encode())
for _ in range(40):
    strings.append("".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 80))).encode())
for _ in range(40):
    strings.append("".join(chr(rng.choice([rng.randrange(0x20, 0x3000), rng.randrange(0x10000, 0x1FFFF), rng.randrange(0xA000, 0xD7FF)]))
                           for _ in range(rng.randint(1, 30))).encode())

for i, data in enumerate(strings + [b"<|start|>assistant<|channel|>final<|message|>x<|return|>", b"<|reserved_200018|><|reserved_201087|><|reserved_201088|>"]):
    text = data.decode(errors="replace")
    line = {"text": base64.b64encode(data).decode()}
    for n, (name, encoding) in enumerate(encodings.items()):
        if n > 1 and i % 3 and b"<|" not in data:
            continue
        line[name] = encoding.encode(text, allowed_special="all")
    print(json.dumps(line, separators=(",", ":")))
