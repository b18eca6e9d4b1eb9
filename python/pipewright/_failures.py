"""Why torch.export failed, and what to change in the model."""

import torch
from torch._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException,
                                           UnsupportedOperatorException)

from ._guards import NO_GENERATOR
from ._places import at, place_of_error

DATA = "use torch.where and masks, and set the rate of layer drop to 0"
HINTS = [  # a part of the message, and what to change
    ("torch._C.Generator", NO_GENERATOR),  # in 2.12; in 2.13 it is an input of the graph
    ("numpy", "compute with torch's operators in place of NumPy's"),
    ("__format__", "print and log values outside forward"),
    ("Cannot access data pointer", "compute with torch's operators, and copy tensors by clone()"),
]
OTHERWISE = ("forward must consist of torch's operators on tensors: no numbers or lists made of their values, no sequences "
             "packed by their lengths (use masks), nothing that is computed outside of torch")


def first_line(error):
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


def failure(error, objective, tensors, guards, outermost):
    """The message for what export() of this objective raised."""
    first = first_line(error)
    if "Constraints violated" in str(error) or "Specializations unexpectedly required" in str(error):
        refusal = guards.refusal(len(tensors[0]))
        if refusal:
            return refusal
    own = own_error(objective, tensors)
    if own is not None:
        return at(place_of_error(own, outermost), f"the model fails with these sample inputs, without torch.export too: "
                  f"{first_line(own)}; call the module with them first")
    if isinstance(error, UnsupportedOperatorException):
        first, hint = f"it has no rule for the operator {first}", "use others, on dense tensors"
    elif isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
        first, hint = f"what the operator {first} does depends on the values of tensors", "use others, and masks"
    elif "data-dependent" in first:
        first, hint = "a branch or a size depends on the values of tensors", DATA
    else:
        hint = next((hint for part, hint in HINTS if part in str(error)), OTHERWISE)
    return at(place_of_error(error, outermost), f"torch.export cannot trace the model: {first}; {hint}")


def own_error(objective, tensors):
    """What the model raises when it is called as PyTorch does; None: it works. Its buffers stay as they are."""
    buffers = {name: buffer.clone() for name, buffer in objective.named_buffers()}
    try:
        with torch.random.fork_rng(devices=[]):
            torch.func.functional_call(objective, buffers, tensors)
    except Exception as error:
        return error
    return None
