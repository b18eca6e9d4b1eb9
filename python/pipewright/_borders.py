"""How a tensor crosses from one layer to another: with the samples in its first dimension, so that they can be cut."""

import torch

from ._values import STORED_TYPES, at_batch, refuse, value


def is_batch(size, factor=1):
    return isinstance(size, torch.SymInt) and all(at_batch(size, b) == factor * b for b in (2, 3, 7))


class Border:
    """The form in which a layer hands its output over: out() before, back() after. Complex numbers are pairs of real ones."""

    def __init__(self, layer):
        tensor = value(layer.root)
        self._is_complex = tensor.is_complex()
        if tensor.dtype not in STORED_TYPES and not self._is_complex:
            refuse(layer.root, f"layer {layer.name} hands over a tensor of type {tensor.dtype}, which is not supported",
                   "convert it, for example to torch.int64 or torch.float32")
        self.is_fixed = not any(isinstance(size, torch.SymInt) for size in tensor.shape)
        self._fold = self._dimension = None
        if self.is_fixed or is_batch(tensor.shape[0]):
            return
        first = at_batch(tensor.shape[0], 2)
        places = [i for i, size in enumerate(tensor.shape) if is_batch(size)]
        if first % 2 == 0 and is_batch(tensor.shape[0], first // 2):
            self._fold = first // 2
        elif places:
            self._dimension = places[0]
        else:
            refuse(layer.root, f"layer {layer.name} hands over a tensor of shape {tuple(tensor.shape)}, which has no "
                   "dimension for the samples", "keep the batch in a dimension of its own, or first of those joined")

    def out(self, tensor):
        if self._is_complex:
            tensor = torch.view_as_real(tensor.resolve_conj())
        if self._fold:
            return tensor.reshape(tensor.shape[0] // self._fold, self._fold, *tensor.shape[1:])
        return tensor if self._dimension is None else tensor.movedim(self._dimension, 0)

    def back(self, tensor):
        if self._fold:
            tensor = tensor.flatten(0, 1)
        elif self._dimension is not None:
            tensor = tensor.movedim(0, self._dimension)
        return torch.view_as_complex(tensor) if self._is_complex else tensor
