"""Random numbers of Python: `if torch.rand([]) < self.layerdrop: continue`. Traced once, a branch would stay as it was.

With a rate of 0 the branch is known; others are refused.
"""

import contextlib
import random
import sys

import torch
from torch.overrides import TorchFunctionMode

from ._guards import replaced
from ._places import is_of_model
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


def refused(name, draw):
    """A random function of Python or NumPy: a Draw, if it draws between 0 and 1."""
    def drawn(*args, **kwargs):
        if not is_of_model(sys._getframe(1).f_code.co_filename):
            return draw(*args, **kwargs)
        if name == "random.random" and not args and not kwargs or name.endswith("uniform") and args == (0, 1):
            return Draw()
        raise ExportError(f"the model draws a random number with {name}, which would be the same in every step; draw a "
                          "tensor, with torch.rand or torch.randn")

    return drawn


@contextlib.contextmanager
def python_draws_refused():
    numpy = sys.modules.get("numpy")
    names = ("random", "uniform", "randint", "choice", "shuffle", "sample", "normal", "gauss", "rand", "randn", "permutation")
    with contextlib.ExitStack() as entered:
        for owner, title in (random, "random"), (numpy and numpy.random, "numpy.random"):
            for name in names:
                draw = getattr(owner, name, None)
                if draw is not None:
                    entered.enter_context(replaced(owner, name, refused(f"{title}.{name}", draw)))
        yield
