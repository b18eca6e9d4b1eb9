"""Functions of the model with a backward of their own (torch.autograd.Function), which torch.export would lose.

While the model is traced, each call is one operator. Where a layer's forward and backward are traced together, the function
itself is called, so that its own backward is asked.
"""

import contextlib
from collections.abc import Sequence

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointFunction

from ._guards import replaced
from ._values import ExportError

APPLY = torch.autograd.Function.__dict__["apply"].__func__
TENSOR, SIZE = object(), object()  # in the place of an argument that differs between calls


@contextlib.contextmanager
def autocast(enabled, number_type):
    """As where the model called; torch.autocast would leave a mark in what is traced."""
    before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    try:
        torch.set_autocast_enabled("cpu", enabled)
        torch.set_autocast_dtype("cpu", number_type)
        yield
    finally:
        torch.clear_autocast_cache()  # its tensors are of this trace
        torch.set_autocast_enabled("cpu", before[0])
        torch.set_autocast_dtype("cpu", before[1])


class Call:
    def __init__(self, function, args):
        leaves, self._spec = pytree.tree_flatten(args)
        self.function = function
        self._autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.sizes = [leaf for leaf in leaves if isinstance(leaf, torch.SymInt)]
        self._leaves = [TENSOR if isinstance(leaf, torch.Tensor) else SIZE if isinstance(leaf, torch.SymInt) else leaf
                        for leaf in leaves]

    def run(self, tensors, sizes):
        """The results as a list, with the gradient that the function says."""
        tensors, sizes = iter(tensors), iter(sizes)
        leaves = [next(tensors) if leaf is TENSOR else next(sizes) if leaf is SIZE else leaf for leaf in self._leaves]
        with autocast(*self._autocast):
            results = APPLY(self.function, *pytree.tree_unflatten(leaves, self._spec))
        return list(results) if isinstance(results, tuple) else [results]


CALLS = []  # of the model that is being exported


class NoDraws(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if torch.Tag.nondeterministic_seeded in operator.tags:
            raise ExportError("a torch.autograd.Function draws random numbers; give them to it as an argument")
        return operator(*args, **(kwargs or {}))


def results_of(tensors, sizes, call):
    """Without gradients; refuses what cannot be an operator."""
    function, versions = CALLS[call], [tensor._version for tensor in tensors]
    with NoDraws():
        results = function.run(tensors, sizes)
    name = function.function.__name__
    if versions != [tensor._version for tensor in tensors]:
        raise ExportError(f"{name}, a torch.autograd.Function, changes its arguments in place; let it return new tensors")
    if not all(isinstance(result, torch.Tensor) for result in results):
        raise ExportError(f"{name}, a torch.autograd.Function, returns something other than tensors; let it return tensors")
    return [result.clone() for result in results]  # an operator's results may not be its arguments


@torch.library.custom_op("pipewright::own_gradient", mutates_args=())
def own_gradient(tensors: Sequence[torch.Tensor], sizes: Sequence[int], call: int) -> list[torch.Tensor]:
    return results_of(tensors, sizes, call)


own_gradient.register_fake(results_of)


def is_own(node):
    return node.target is torch.ops.pipewright.own_gradient.default


def run_own(tensors, sizes, call):
    return CALLS[call].run(tensors, sizes)


@contextlib.contextmanager
def own_gradients_kept():
    """A reentrant checkpoint is a function whose gradient is that of the function it calls; inside it, nodes would not know
    their module. What is computed again is for the plan to say."""
    def apply(cls, *args, **kwargs):
        if cls is CheckpointFunction:
            function, _, *given = args
            return function(*given)
        if cls.__module__.startswith("torch."):
            return APPLY(cls, *args, **kwargs)
        call = Call(cls, args)
        CALLS.append(call)
        results = own_gradient(call.tensors, call.sizes, len(CALLS) - 1)
        return results[0] if len(results) == 1 else tuple(results)

    CALLS.clear()
    with replaced(torch.autograd.Function, "apply", classmethod(apply)):
        yield
