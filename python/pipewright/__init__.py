"""Pipewright: pipeline-parallel training, planned.

    import pipewright as pw
    model = pw.export(MyNet(), (x, y), loss="cross_entropy")
    plan = pw.plan(model, cluster="2xcpu", minibatch=64)
    run = pw.train(model, plan, data=loader, steps=100)
    net.load_state_dict(run.state_dict())

The program `pipewright` plans, simulates and trains; these functions call it. model.save("mynet") writes mynet.json,
which every command of it takes as MODEL.
"""

from ._exporter import ExportedModel, export
from ._exporting import to_deepspeed, to_megatron, to_torch, to_torchtitan
from ._planning import Plan, Profile, compare, plan, profile, simulate
from ._program import PipewrightError
from ._training import Run, train
from ._values import ExportError

__all__ = ["ExportError", "ExportedModel", "PipewrightError", "Plan", "Profile", "Run", "compare", "export", "plan",
           "profile", "simulate", "to_deepspeed", "to_megatron", "to_torch", "to_torchtitan", "train"]
