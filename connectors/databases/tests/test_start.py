"""The plugin starts in every run, so it loads only what each of its connectors needs."""

import subprocess
import sys


def test_a_start_does_not_load_pandas():
    code = "import sys, penstock_databases.__main__; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
