# Writes what aiperf's loader makes of testdata/render.yaml. Run with the Python of an aiperf 0.13.0 installation:
#   NINE=9 python testdata/render.py > testdata/render.json
import json

from aiperf.config.loader.core import load_config_dict

print(json.dumps(load_config_dict("testdata/render.yaml"), indent=2))
