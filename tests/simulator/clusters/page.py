"""The sample cluster file of docs/simulator/clusters.md, and a matrix for it."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "simulator" / "clusters.md").read_text()
SAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
MATRIX = "\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\tX\n"
