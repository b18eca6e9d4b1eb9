"""Profiles, plans and simulations as Python objects; the program computes them."""

import json
import os
import pathlib
import tempfile

import torch

from ._exporter import ExportedModel
from ._program import PipewrightError, call

_folder = None


def new_file(suffix):
    """A file of this process that nobody named; it is gone when the process ends."""
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="pipewright-")
    handle, name = tempfile.mkstemp(suffix=suffix, dir=_folder.name)
    os.close(handle)
    return name


def model_name(model):
    """MODEL of the command line: an exported model is saved first."""
    if isinstance(model, torch.nn.Module):
        raise PipewrightError(f"{type(model).__name__} is a module; export it first: pw.export(net, batch)")
    if not isinstance(model, ExportedModel):
        return os.fspath(model)
    if model.file is None:
        model.save(new_file(".json"))
    return model.file


class Profile:
    """What each layer of a model costs. `description` is the file's content; save() writes it."""

    def __init__(self, file):
        self.file = os.fspath(file)
        self.description = json.loads(pathlib.Path(file).read_text())

    @property
    def model(self):
        """The model's name or file."""
        return self.description["model"]

    @property
    def layers(self):
        """The names of the layers, in order."""
        return [layer["name"] for layer in self.description["layers"]]

    def save(self, path):
        """Writes the profile, which commands take as --profile."""
        pathlib.Path(path).write_text(pathlib.Path(self.file).read_text())

    def __repr__(self):
        return f"Profile({self.model}: {len(self.layers)} layers, {self.description['origin']['source']})"


class Plan:
    """Stages, devices, a schedule and a method, with what the simulator expects of them.

    `facts` has the figures ("step_seconds", "bubble", "memory_bytes", "stages", ...), `source` the model or profile that
    it is for; save() writes the plan file. In a notebook it is drawn.
    """

    def __init__(self, file, facts, cluster, source):
        self.file, self.facts, self.source = file, facts, source
        self._cluster = cluster

    @property
    def step_seconds(self):
        """The predicted time of a step."""
        return self.facts["step_seconds"]

    @property
    def minibatch(self):
        """Samples per step."""
        return json.loads(pathlib.Path(self.file).read_text())["minibatch"]

    def save(self, path):
        """Writes the plan, which commands take as PLAN. It names the model's file: save the model before planning for it."""
        pathlib.Path(path).write_text(pathlib.Path(self.file).read_text())

    def simulate(self, **options):
        """The timeline's figures, as `pipewright simulate --json` prints them."""
        return call("simulate", self.file, cluster=self._cluster, **self.source, **options)

    def svg(self):
        """The simulated timeline as a picture."""
        picture = new_file(".svg")
        self.simulate(svg=picture)
        return pathlib.Path(picture).read_text()

    def _repr_html_(self):
        return f"<p>{self!r}</p>" + self.svg()

    def __repr__(self):
        facts = self.facts
        stages = f"{len(facts['stages'])} stage{'s' if len(facts['stages']) != 1 else ''}"
        return (f"Plan({stages}, {facts['schedule']}, {facts['microbatches']} microbatches of {facts['microbatch']}: "
                f"{facts['step_seconds'] * 1e3:.3g} ms per step, {facts['bubble']:.1%} bubble)")


def source_of(model_or_profile):
    if isinstance(model_or_profile, Profile):
        return {"profile": model_or_profile.file}
    return {"model": model_name(model_or_profile)}


def profile(model, microbatches, device="cpu", workers=None, optimizer=None):
    """Measures a model's layers on this machine (device "cpu"), or estimates them for a known one ("V100").

    model         what export() returned, a zoo name ("gpt:layers=12"), or a model file
    microbatches  sizes to measure at: a list, or one number
    workers       how many compute at the same time while measuring; default: one per core
    optimizer     the one that will train ("adamw"), whose update is measured; default: "momentum"
    """
    is_measured = device == "cpu" or device.startswith("cuda")
    sizes = [microbatches] if isinstance(microbatches, int) else list(microbatches)
    file = new_file(".json")
    call("profile", model_name(model), microbatch=sizes, device=device, analytic=not is_measured,
         workers=workers, optimizer=optimizer, output=file)
    return Profile(file)


def plan(model_or_profile, cluster, minibatch, **options):
    """Plans for a cluster ("4xA100-40@nvlink", or a cluster file) and so many samples per step.

    Options are those of `pipewright plan`: planner, method, stages, microbatch, memory, optimizer, budget. A model's
    costs are estimated for the cluster's devices; a profile's were measured.
    """
    file, source = new_file(".json"), source_of(model_or_profile)
    facts = call("plan", cluster=cluster, minibatch=minibatch, output=file, **source, **options)
    return Plan(file, facts, cluster, source)


def compare(model_or_profile, cluster, minibatch, **options):
    """Every planner on the same problem: rows, as a pandas DataFrame where pandas is installed.

    They are in the order of the table that `pipewright compare` prints: synchronous plans, fastest first, asynchronous
    ones (other `method`s than "sync"), fastest first, and planners without a plan, with the reason (`refused`).
    """
    rows = call("compare", cluster=cluster, minibatch=minibatch, **source_of(model_or_profile), **options)["plans"]
    rows.sort(key=lambda row: ("refused" in row, row["method"] != "sync"))
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def simulate(plan_file, cluster, **options):
    """The figures of a plan file's timeline; options are those of `pipewright simulate`."""
    return call("simulate", os.fspath(plan_file), cluster=cluster, **options)
