"""run_pytest.py PROGRAM ROOT: runs the tests of the Python package, or says why not."""

import importlib.util
import os
import sys

missing = [name for name in ("torch", "safetensors", "numpy", "pytest") if importlib.util.find_spec(name) is None]
if missing:
    print(f"skipped: {sys.executable} has no {', '.join(missing)}; tools/setup installs them")
    sys.exit(0)
os.environ["PIPEWRIGHT"] = sys.argv[1]
os.environ.setdefault("OMP_NUM_THREADS", "1")
import pytest

sys.exit(pytest.main(["-q", "-rs", "-p", "no:cacheprovider", "-p", "no:logging", os.path.join(sys.argv[2], "tests", "python"), *sys.argv[3:]]))
