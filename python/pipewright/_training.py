"""pipewright.train(): runs a plan, or plans for this machine, and gives the weights back."""

import json
import math
import os
import pathlib
import re
import sys
import tempfile

import torch

from ._exporter import ExportedModel
from ._feeding import Feeder, samples_per_pass
from ._optimizers import optimizer_words
from ._pictures import curve, table
from ._planning import Plan, model_name
from ._program import PipewrightError, call


class Run:
    """A training that has ended. `report` is what `pipewright train --json` prints; `folder` is the run folder."""

    def __init__(self, folder, report):
        self.folder, self.report = pathlib.Path(folder), report

    @property
    def losses(self):
        """The loss of every step."""
        rows = map(json.loads, (self.folder / "metrics.jsonl").read_text().splitlines())
        return [row["loss"] for row in rows if "samples_per_second" in row]

    @property
    def comparison(self):
        """Predicted and measured step time, busy time, bubble and memory, by name."""
        return self.report.get("comparison", {})

    def state_dict(self):
        """The module's weights and buffers, for load_state_dict()."""
        from safetensors.torch import load_file

        return load_file(self.folder / "weights.safetensors")

    def _repr_html_(self):
        losses = self.losses
        rows = [{"": name, "predicted": row.get("predicted", ""), "measured": row.get("measured", "")}
                for name, row in self.comparison.items()]
        return f"<p>{self!r}</p>" + (curve(losses, "loss") if losses else "") + table(rows)

    def __repr__(self):
        return f"Run({self.folder}: {self.report['steps']} steps, loss {self.report['loss']:.4g})"


def as_batches(data, minibatch):
    """A dataset is read in order; anything else is an iterable of batches."""
    is_dataset = isinstance(data, torch.utils.data.Dataset) and hasattr(data, "__getitem__")
    return torch.utils.data.DataLoader(data, batch_size=minibatch) if is_dataset else data


class Progress:
    """A bar of tqdm where that is installed, else the lines that the program says."""

    def __init__(self, steps):
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self.bar = None
        else:
            self.bar = tqdm(total=steps, unit="step")

    def __call__(self, line):
        step = re.match(r"step (\d+)/(\d+)\s+loss (\S+)", line)
        if self.bar is None or not step:
            print(line, file=sys.stderr)
        else:
            self.bar.total = int(step[2])
            self.bar.update(int(step[1]) - self.bar.n)
            self.bar.set_postfix(loss=step[3])

    def close(self):
        if self.bar is not None:
            self.bar.close()


def data_error(error, ended):
    """What the data raised, and what the program has done then."""
    if isinstance(error, PipewrightError):
        return PipewrightError(f"{error}; {ended}", ended.code)
    if hasattr(error, "add_note"):  # not in Python 3.10
        error.add_note(str(ended))
    return error


def length(steps, epochs, data, minibatch):
    """Steps and epochs for the program: only it knows the samples of data that is a text."""
    if steps is not None and epochs is not None:
        raise PipewrightError("give steps or epochs, not both")
    if epochs is None:
        return 100 if steps is None else steps, None
    if isinstance(data, str):
        return None, epochs
    return math.ceil(epochs * samples_per_pass(data) / minibatch), None


def train(model, plan=None, data=None, steps=None, minibatch=None, run=None, progress=True, optimizer=None, groups=None,
          epochs=None, **options):
    """Trains an exported model.

    plan      a Plan, a plan file, or None: planned here for `minibatch` and `workers` (an option, default 2)
    data      an iterable of batches (a DataLoader, a Dataset), read in its order while training runs, and again from its
              start when it ends; or a text as --data takes it, such as "tensors:FILE"
    steps     of training; default: 100
    epochs    in place of steps: passes over data whose number of samples is known (a text, a Dataset, a DataLoader or a
              list of batches)
    run       the run folder; default: a temporary one, which stays
    progress  True: a bar; False: nothing; or a function of each line that the program says
    optimizer "sgd" (default), "adam", "adamw"; or an SGD, Adam or AdamW of torch.optim that has made no step: its
              settings and groups are used, and it stays as it is
    groups    learning rate and weight decay of some parameters: [{"params": ["*.bias", "*norm*"], "weight_decay": 0},
              {"params": "head.*", "lr": 1e-4}]. params are names, patterns or the module's parameters; the first group
              that has a parameter counts
    options   those of `pipewright train`: lr, weight_decay, momentum, betas, eps, clip, warm_up, lr_schedule, seed,
              workers, method, weights, device, resume, ...

    Returns a Run. Ctrl-C ends the training after a step and saves it in the run folder; so does data that ends too early
    or raises. train(..., run=..., resume=True) goes on: it reads the data from its start, and leaves out the samples of
    the steps that are done. Raises PipewrightError with the program's message, or what the data raised.
    """
    if isinstance(plan, Plan):
        words, minibatch = [plan.file], plan.minibatch
    elif plan is not None:
        words, minibatch = [plan], json.loads(pathlib.Path(plan).read_text())["minibatch"]
    elif minibatch is None:
        raise PipewrightError("give a plan, or a minibatch to plan for")
    else:
        words, options = [], {"minibatch": minibatch, **options}
    name = model_name(model)
    if data is None:
        raise PipewrightError('give data: an iterable of batches, or a text such as "tensors:FILE"')
    folder = os.fspath(run) if run is not None else tempfile.mkdtemp(prefix="pipewright-run-")
    group_words, options = optimizer_words(model, optimizer, groups, options)
    feeder = None
    if not isinstance(data, str):
        if not isinstance(model, ExportedModel):
            raise PipewrightError("data from Python needs the model that export() returned; or give data as a text")
    steps, epochs = length(steps, epochs, data, minibatch)
    if not isinstance(data, str):
        feeder, data = Feeder(model, as_batches(data, minibatch), minibatch, steps), "python"
    show = Progress(steps) if progress is True else None
    try:
        report = call("train", *words, *group_words, model=name, data=data, run=folder, steps=steps,
                      epochs=epochs, on_line=show or progress or None, feeder=feeder, **options)
    except PipewrightError as ended:
        if feeder and feeder.error:
            raise data_error(feeder.error, ended)
        raise
    finally:
        if feeder:
            feeder.close()
        if show:
            show.close()
    return Run(folder, report)
