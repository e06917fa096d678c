"""``simulated`` stands beside the tests that take their settings from it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
