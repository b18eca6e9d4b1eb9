"""The sample inputs of a module: which tensors they have, and where each goes."""

import inspect
from collections.abc import Mapping

import torch
from torch.utils import _pytree as pytree

from ._values import STORED_TYPES, ExportError


def named_tensors(name, given):
    """The tensors of an input, by name: the input's own, or for those in lists and dictionaries "images.0", "batch.x"."""
    found = [(path, leaf) for path, leaf in pytree.tree_leaves_with_path(given) if isinstance(leaf, torch.Tensor)]
    return [(".".join([name, *map(key_text, path)]), leaf) for path, leaf in found]


def key_text(key):
    return next(str(getattr(key, field)) for field in ("idx", "key", "name") if hasattr(key, field))


class Arguments:
    """Sample inputs, split into tensors (with names) and what stays fixed."""

    def __init__(self, module, sample, has_loss):
        parameters = inspect.signature(module.forward).parameters
        if isinstance(sample, Mapping):
            takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
            items = list(sample.items())
            self._kinds = ["key" if name in parameters or takes_any else "target" for name, _ in items]
        else:
            sample = (sample,) if isinstance(sample, torch.Tensor) else tuple(sample)
            names = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
            names += [f"input{i}" for i in range(len(names), len(sample))]
            items = [(names[i], given) for i, given in enumerate(sample)]
            self._kinds = ["position"] * len(items)
            if has_loss and len(items) > 1:
                items[-1] = ("target", items[-1][1])
                self._kinds[-1] = "target"
        self._items = items
        if not has_loss and "target" in self._kinds:
            extra = [name for (name, _), kind in zip(items, self._kinds) if kind == "target"]
            raise ExportError(f"{type(module).__name__}.forward does not take {', '.join(extra)}; "
                              "give a loss, which takes them as targets")
        found = [pair for name, given in items for pair in named_tensors(name, given)]
        self.names = [name for name, _ in found]
        self.tensors = tuple(self._checked(name, tensor) for name, tensor in found)
        if not self.tensors:
            raise ExportError("the sample inputs have no tensor; give a batch as the module takes it")
        if len({tensor.shape[0] for tensor in self.tensors}) > 1:
            sizes = ", ".join(f"{n} {tuple(t.shape)}" for n, t in zip(self.names, self.tensors))
            raise ExportError(f"the sample inputs have different numbers of samples: {sizes}; "
                              "the first dimension of every input is the batch")

    @staticmethod
    def _checked(name, tensor):
        if tensor.dim() == 0:
            raise ExportError(f"the input {name} has no dimensions; the first dimension of every input is the batch: give a "
                              f"number that stays the same as a Python number ({name}={tensor.item()}), or one per sample")
        if tensor.dtype not in STORED_TYPES:
            raise ExportError(f"the input {name} has type {tensor.dtype}, which is not supported; "
                              "convert it, for example to torch.int64 or torch.float32")
        tensor = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        # torch.export takes a batch of one for a constant.
        return tensor if tensor.shape[0] > 1 else torch.cat([tensor, tensor])

    def filled(self, tensors):
        given = iter(tensors)
        args, kwargs, targets = [], {}, []
        for (name, fixed), kind in zip(self._items, self._kinds):
            item = pytree.tree_map(lambda leaf: next(given) if isinstance(leaf, torch.Tensor) else leaf, fixed)
            if kind == "key":
                kwargs[name] = item
            else:
                (args if kind == "position" else targets).append(item)
        return args, kwargs, targets
