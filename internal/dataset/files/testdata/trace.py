# Makes trace.jsonl; then, with aiperf 0.13.0: aiperf analyze-trace trace.jsonl --output-file trace.json > trace.txt
import json
import random

random.seed(3)
with open("trace.jsonl", "w") as f:
    for i in range(60):
        ids = random.choice([[1, 2, 3], [1, 2, 4], [9], [5, 6, 7, 8]]) + [100 + i * 3 + k for k in range(random.randrange(0, 3))]
        if i % 17 == 5:
            ids = []
        length = random.randrange(max(1, len(ids) * 512 - 500), len(ids) * 512 + 2)
        f.write(json.dumps({"timestamp": i * 10, "input_length": length, "output_length": random.randrange(0, 3000), "hash_ids": ids}) + "\n")
    f.write('\n{"text_input":"a"}\n')
