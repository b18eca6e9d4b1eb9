"""What functions of the package say to arguments that they do not take, in Python's words.

    PIPEWRIGHT=build/pipewright pytest tests/python/test_arguments.py
"""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw
from pipewright._messages import in_python

NET = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
X, Y = torch.randn(40, 6), torch.randint(3, (40,))
OPTIONS = dict(minibatch=16, workers=1, lr=0.01, progress=False)


@pytest.fixture(scope="module")
def model():
    return pw.export(NET, (X[:8], Y[:8]), loss="cross_entropy")


def test_epochs_are_passes_over_the_data(model, tmp_path):
    dataset = torch.utils.data.TensorDataset(X, Y)
    loader = torch.utils.data.DataLoader(dataset, batch_size=16)
    for data in [(X, Y)], dataset, loader:
        assert len(pw.train(model, data=data, epochs=2, **OPTIONS).losses) == 5  # 80 samples
    whole = torch.utils.data.DataLoader(dataset, batch_size=16, drop_last=True)
    assert len(pw.train(model, data=whole, epochs=2, **OPTIONS).losses) == 4
    assert len(pw.train(model, data="synthetic:32", epochs=2, **OPTIONS).losses) == 4
    with pytest.raises(pw.PipewrightError, match="number of samples is known.*give steps"):
        pw.train(model, data=((X, Y) for _ in range(9)), epochs=2, **OPTIONS)
    with pytest.raises(pw.PipewrightError, match="steps or epochs, not both"):
        pw.train(model, data=loader, steps=5, epochs=2, **OPTIONS)


@pytest.mark.parametrize("use", [
    lambda: pw.plan(NET, "2xcpu", 16), lambda: pw.compare(NET, "2xcpu", 16), lambda: pw.profile(NET, 8),
    lambda: pw.train(NET, data=[(X, Y)], **OPTIONS)])
def test_a_module_has_to_be_exported_first(use):
    with pytest.raises(pw.PipewrightError, match=r"export it first: pw.export\(net, batch\)"):
        use()


def test_export_takes_modules():
    with pytest.raises(pw.ExportError, match="takes an nn.Module, not a function; call the function in"):
        pw.export(lambda x: x, X)
    with pytest.raises(pw.ExportError, match=r"Linear is a class; make a module of it: export\(Linear\("):
        pw.export(torch.nn.Linear, X)
    with pytest.raises(pw.ExportError, match="takes an nn.Module, not a Tensor"):
        pw.export(X, X)
    with pytest.raises(pw.ExportError, match=r"for this sample batch, of shape \(8, 3\); give a loss"):
        pw.export(NET, X[:8])


def test_one_microbatch_size_is_a_number(model):
    assert pw.profile(model, microbatches=8, workers=1).layers == model.layers


@pytest.mark.parametrize("data", [(X, Y), [X, Y], X])
def test_data_is_a_list_of_batches(model, data):
    with pytest.raises(pw.PipewrightError, match=r"write data=\[\(input, target\)\]"):
        pw.train(model, data=data, steps=2, **OPTIONS)


def test_messages_name_keyword_arguments(model, tmp_path):
    options = dict(data=[(X, Y)], steps=2, **{**OPTIONS, "run": tmp_path / "run"})
    pw.train(model, **options)
    with pytest.raises(pw.PipewrightError, match="continue with resume=True, or choose another run"):
        pw.train(model, **options)
    with pytest.raises(pw.PipewrightError, match=r'^lr: expected .* \(help\(pipewright.train\)\)'):
        pw.train(model, **{**options, "lr": -1})
    with pytest.raises(pw.PipewrightError, match='unknown lr_schedule "cos"'):
        pw.train(model, **{**options, "lr_schedule": "cos"})
    assert in_python("a--b/x--y --beta1: (use --method naive)") == "a--b/x--y betas: (use method naive)"


def test_plans_are_compared_in_the_order_of_the_table(model):
    rows = pw.compare(model, "2xcpu", 16, budget=1)
    rows = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    planned = [row for row in rows if not isinstance(row.get("refused"), str)]
    assert rows[:len(planned)] == planned and rows[0]["method"] == "sync"
    assert [row["method"] for row in planned] == sorted((row["method"] for row in planned), key=lambda each: each != "sync")
    synchronous = [row["step_seconds"] for row in planned if row["method"] == "sync"]
    assert synchronous == sorted(synchronous)
