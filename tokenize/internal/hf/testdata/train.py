"""Trains the small tokenizers of this folder, one of each kind, and writes the golden ids.

    python tokenize/internal/hf/testdata/train.py

Made with tokenizers 0.23.3. The text is generated here from a fixed seed; trained again, the files are the same.
"""

import base64
import hashlib
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
rng = random.Random(7)
STEMS = "mea sur lan tern val ley quie t en gin eer mar ket far mer bri ght car ry old nar row the of and to in is it for on with as at by ing ed er ly".split()
OTHER = ["é", "ü", "ñ", "漢字", "かな", "한글", "привет", "мир", "Γειά", "नमस्ते", "مرحبا", "👍", "🇩🇪", "don't", "we'll", "I'm", "123", "4567", "x_y", "==", "::", "//", "();", "\n", "\n\n", "\t", "  ", "    "]


def word():
    w = "".join(rng.choice(STEMS) for _ in range(rng.randint(1, 3)))
    return w.capitalize() if rng.random() < 0.15 else w


def lines(n):
    for _ in range(n):
        yield " ".join(rng.choice(OTHER) if rng.random() < 0.12 else word() for _ in range(rng.randint(3, 20))) + rng.choice([".", "!", "?", ".\n", ""])


TEXT = list(lines(6000))
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
CAPITALS, SMALLS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MIXED, SHOUTED = r"[^\r\n\p{L}\p{N}]?" + CAPITALS + "*" + SMALLS + "+", r"[^\r\n\p{L}\p{N}]?" + CAPITALS + "+" + SMALLS + "*"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = MIXED + SHORT + "|" + SHOUTED + SHORT + r"|\p{N}{1,3}|" + TAIL
TEKKEN = MIXED + "|" + SHOUTED + r"|\p{N}|" + TAIL
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def split(*patterns):
    parts = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence(parts + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(pre, normalizer=None, size=900, added=("<|endoftext|>", "<|im_start|>"), ignore_merges=False):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(ALPHABET), show_progress=False))
    t.add_special_tokens([AddedToken(a, special=True) for a in added])
    return t


def fallback(pre=None, normalizer=None, decoder=None, fuse=True, dedupe=True):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=True))
    t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=1200, special_tokens=special, limit_alphabet=70, show_progress=False))
    raw = json.loads(t.to_str())
    raw["added_tokens"] = [a for a in raw["added_tokens"] if a["id"] < 3]
    t = Tokenizer.from_str(json.dumps(raw))
    t.decoder = decoder or decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def unigram(pre, normalizer, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    special = ["<unk>", "<s>", "</s>"] + (["<0x%02X>" % b for b in range(256)] if byte_fallback else [])
    t.train_from_iterator(TEXT, trainers.UnigramTrainer(vocab_size=600, special_tokens=special, unk_token="<unk>", show_progress=False))
    raw = json.loads(t.to_str())
    raw["model"]["byte_fallback"] = byte_fallback
    raw["model"]["vocab"] = [[p, round(s, 6)] for p, s in raw["model"]["vocab"]]
    raw["added_tokens"] = [a for a in raw["added_tokens"] if a["id"] < 3]
    t = Tokenizer.from_str(json.dumps(raw))
    t.decoder = decoders.Metaspace() if not byte_fallback else decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return t


def wordpiece(normalizer, pre, cleanup=True):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.decoder = decoders.WordPiece(cleanup=cleanup)
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return t


def clip():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="@"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], end_of_word_suffix="</w>", continuing_subword_prefix="@", show_progress=False))
    t.decoder = decoders.BPEDecoder()
    return t


def added_flags():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), normalizers.Lowercase(), added=("<|endoftext|>",))
    t.add_tokens([
        AddedToken("<mask>", lstrip=True, rstrip=False, normalized=False),
        AddedToken("word", single_word=True, normalized=True),
        AddedToken("<ADDED>", rstrip=True, normalized=True),
        AddedToken("  ", normalized=False),
        AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False),
    ])
    return t


def word_level():
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.Digits()])
    t.train_from_iterator(TEXT, trainers.WordLevelTrainer(vocab_size=400, special_tokens=["<unk>"], show_progress=False))
    return t


CHARSMAP = None  # made below


def double_array(pairs):
    """A compiled table of replacements as SentencePiece writes it: a double-array trie, then the texts."""
    texts = b""
    where = {}
    for _, value in pairs:
        if value not in where:
            where[value] = len(texts)
            texts += value.encode() + b"\0"
    trie = {}
    for key, value in pairs:
        node = trie
        for b in key.encode():
            node = node.setdefault(b, {})
        node[None] = where[value]
    units = {0: 0}
    used = {0}

    def place(node, at):
        """Finds an offset for node's children and writes them."""
        labels = [0 if k is None else k for k in node]
        base = 1
        while any((at ^ base ^ label) in used for label in labels):
            base += 1
        used.update(at ^ base ^ label for label in labels)
        units[at] = units.get(at, 0) | base << 10 | (256 if None in node else 0)
        for k, child in node.items():
            if k is None:
                units[at ^ base] = child | 1 << 31
            else:
                units[at ^ base ^ k] = k
        for k, child in node.items():
            if k is not None:
                place(child, at ^ base ^ k)

    place(trie, 0)
    size = (max(used) // 256 + 1) * 256
    blob = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range(size))
    return len(blob).to_bytes(4, "little") + blob + texts


def charsmap():
    pairs = [("\u0301", ""), ("e\u0301", "é"), ("ﬁ", "fi"), ("①", "1"), ("\u3000", " "), ("\u00a0", " "), ("\r\n", " "), ("\n", " "), ("\t", " "), ("½", "1/2"), ("ﾊﾟ", "パ"), ("ﾊ", "ハ"),
             ("\u200b", ""), ("Ｑ", "Q")]
    raw = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(double_array(pairs)).decode()}
    return raw


def with_charsmap(t):
    raw = json.loads(t.to_str())
    raw["normalizer"] = {"type": "Sequence", "normalizers": [charsmap(), {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}
    return Tokenizer.from_str(json.dumps(raw))


space = normalizers.Replace(" ", "▁")
kinds = {
    "gpt2": byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "llama3": byte_level(split(LLAMA3), ignore_merges=True),
    "qwen2": byte_level(split(QWEN2), normalizers.NFC()),
    "qwen35": byte_level(split(QWEN35), normalizers.NFC(), size=500),
    "o200k": byte_level(split(O200K), size=700),
    "tekken": byte_level(split(TEKKEN), size=500),
    "deepseek": byte_level(split(*DEEPSEEK)),
    "falcon": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), ]), size=500),
    "digits": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), size=500),
    "added": added_flags(),
    "llama2": fallback(None, normalizers.Sequence([normalizers.Prepend("▁"), space])),
    "gemma": fallback(pre_tokenizers.Split(" ", "merged_with_previous"), space, decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])),
    "mistral": fallback(pre_tokenizers.Metaspace(prepend_scheme="first", split=False), normalizers.NFKC()),
    "unigram": with_charsmap(unigram(pre_tokenizers.Metaspace(), normalizers.NFKC())),
    "unigram-bytes": unigram(pre_tokenizers.Metaspace(prepend_scheme="first", split=False), normalizers.Nmt(), True),
    "wordpiece": wordpiece(normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()),
    "wordpiece-cased": wordpiece(normalizers.BertNormalizer(lowercase=False, strip_accents=False), pre_tokenizers.BertPreTokenizer(), False),
    "suffix": clip(),
    "wordlevel": word_level(),
}
for name, t in kinds.items():
    raw = json.loads(t.to_str())
    (HERE / (name + ".json")).write_text(json.dumps(raw, ensure_ascii=False, separators=(",", ":")) + "\n")
