"""The program's messages in Python's words: it names options of the command line, here they are keyword arguments."""

import re

FLAGS = ("checksum", "elastic", "fast_kernels", "fast_reduce", "nesterov", "no_correction", "no_fused_kernels", "no_graphs",
         "no_masters", "no_rescheduling", "poll", "resume", "tf32", "vertical_sync", "watch")
RENAMED = {"beta1": "betas", "beta2": "betas", "epsilon": "eps"}
OPTION = re.compile(r"(?<![\w/.-])--([a-z][a-z0-9-]*)")
HELP = re.compile(r"\bpipewright (train|plan|compare|simulate|profile) --help")


def argument(option):
    """The keyword argument of an option; of a flag with its value."""
    name = option[1].replace("-", "_")
    name = RENAMED.get(name, name)
    return f"{name}=True" if name in FLAGS else name


def in_python(message):
    """The message with keyword arguments in place of options."""
    return OPTION.sub(argument, HELP.sub(r"help(pipewright.\1)", message))
