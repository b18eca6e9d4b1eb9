"""The programs of examples/python: what they print, and that what they train is better after it."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import pipewright as pw

EXAMPLES = ROOT / "examples" / "python"


def printed(*words):
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    done = subprocess.run([sys.executable, "-W", "ignore", *map(str, words)], capture_output=True, text=True,
                          env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_own_module():
    said = printed(EXAMPLES / "own_module.py")
    assert "Plan(2 stages, 1f1b, 4 microbatches of 16" in said
    first, last, accuracy = re.search(r"loss (\S+) to (\S+), accuracy (\d+)%", said).groups()
    assert float(last) < float(first) / 2 and int(accuracy) > 80


def test_gpt2_on_a_text_file(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    text = tmp_path / "text"
    text.write_text("to be or not to be, that is the question. " * 40)
    said = printed(EXAMPLES / "gpt2_text.py", text, "--steps", 30, "--length", 16, "--minibatch", 16, "--out",
                   tmp_path / "trained")
    first, last = map(float, re.search(r"^loss (\S+) to (\S+)$", said, re.MULTILINE).groups())
    assert last < first - 1
    module = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "trained").eval()
    pieces = torch.tensor([list(text.read_bytes()[:16])])
    assert module(pieces, labels=pieces).loss.item() < first - 1


def test_the_notebook():
    """Its cells one after the other; with Jupyter's own runner, too, where that is installed."""
    notebook = json.loads((EXAMPLES / "own_module.ipynb").read_text())
    names = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["accuracy"] > 0.5 and names["plan"]._repr_html_().count("<svg") == 1
    assert "<svg" in names["run"]._repr_html_()


def test_the_notebook_in_jupyter():
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install nbclient ipykernel")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install nbclient ipykernel")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install ipykernel")
    os.environ["PYTHONPATH"] = str(ROOT / "python")
    notebook = nbformat.read(EXAMPLES / "own_module.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300).execute()
    assert any("<svg" in str(output) for cell in notebook.cells for output in cell.get("outputs", []))
