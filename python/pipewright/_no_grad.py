"""torch.no_grad() inside forward, which torch.export does not keep."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree


def detached(leaf):
    return leaf.detach() if isinstance(leaf, torch.Tensor) and leaf.requires_grad else leaf


class NoGrad(TorchFunctionMode):
    """While it is entered, what is computed without gradients reads detached tensors: that is kept."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if not torch.is_grad_enabled():
            args, kwargs = pytree.tree_map(detached, (args, kwargs))
        return function(*args, **(kwargs or {}))
