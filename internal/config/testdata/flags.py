# Writes the golden list of aiperf's `profile` flags, one field a line: FIELD<tab>bool|words|word<tab>NAMES<tab>NEGATIVES.
# Run with the Python of an aiperf 0.13.0 installation:
#   python testdata/flags.py > testdata/aiperf-0.13.0-flags.txt
from aiperf.config.flags.cli_config import CLIConfig

for field, info in CLIConfig.model_fields.items():
    param = next(m for m in info.metadata if hasattr(m, "consume_multiple"))
    kind = "word"
    if info.annotation in (bool, bool | None):
        kind = "bool"
    elif param.consume_multiple:
        kind = "words"
    print(field, kind, " ".join(param.name), " ".join(param.negative or ()), sep="\t")
