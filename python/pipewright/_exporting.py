"""Plans for other systems: what `pipewright export` writes, as Python objects."""

import os

from ._planning import Plan
from ._program import call


def exported(plan, to, output):
    source = plan.source if isinstance(plan, Plan) else {}
    file = plan.file if isinstance(plan, Plan) else os.fspath(plan)
    return call("export", file, to=to, output=None if output is None else os.fspath(output), **source)


def to_torch(plan, output=None):
    """For torch.distributed.pipelining: "split_points" (module paths), "stage_to_rank", and "files": run.py, a script that
    trains with the plan, and schedule.csv. `output` is a folder to write them to.

    The plan is a Plan or a plan file. What the system cannot run is a PipewrightError that names it; so do the others.
    """
    return exported(plan, "torch", output)


def to_megatron(plan, output=None):
    """For Megatron-LM: "arguments" for its training scripts. `output` is a file for them."""
    return exported(plan, "megatron", output)


def to_deepspeed(plan, output=None):
    """For DeepSpeed: "bounds" of the stages in the list of modules, and a file with a PipelineModule that has them."""
    return exported(plan, "deepspeed", output)


def to_torchtitan(plan, output=None):
    """For torchtitan: "module_fqns_per_model_part", "schedule", and a part of its configuration file."""
    return exported(plan, "torchtitan", output)
