"""Layer drop: `if torch.rand([]) < self.layerdrop: continue`. With a rate of 0 the branch is known; others are refused."""

import torch
from torch.overrides import TorchFunctionMode

from ._values import ExportError


class Draw:
    """A number between 0 and 1 of which only comparisons are known that hold for all of them."""

    def _compared(self, number, below, above):
        if isinstance(number, (int, float)) and number <= 0:
            return below
        if isinstance(number, (int, float)) and number >= 1:
            return above
        raise ExportError(f"the model branches on a random number (compared with {number}); set the rate of layer drop to 0")

    def __lt__(self, number):
        return self._compared(number, False, True)

    def __gt__(self, number):
        return self._compared(number, True, False)

    def __getattr__(self, name):
        raise ExportError(f"the model computes with a random number ({name} of torch.rand([])); "
                          "use nn.Dropout, and no layer drop")


class Draws(TorchFunctionMode):
    """While it is entered, torch.rand([]) is a Draw."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        is_scalar = function is torch.rand and len(args) == 1 and args[0] in ([], ()) and not kwargs
        return Draw() if is_scalar else function(*args, **(kwargs or {}))
