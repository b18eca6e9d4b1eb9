"""Where a model works for some batch sizes only.

torch.export keeps the batch symbolic, and notes a guard wherever what is traced depends on it: a branch, a reshape, a loop
over samples. At its end it refuses guards that other batch sizes break, and does not say which line made them. Here the line
is noted with the guard. `_log_guard` of torch's ShapeEnv is called once per guard, in 2.11 to 2.13.
"""

import sys

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ._guards import replaced
from ._places import at, place_of_frame

SIZES = (*range(2, 65), *(1 << power for power in range(7, 21)))  # tried: the least, and up to the largest of capture()

FIXED = ("microbatches have other sizes: write x.shape[0] in place of a number, len(x), int(x.shape[0]) or float(x.shape[0]), "
         "operators on the whole batch in place of a loop over its samples, and make no tensor for one batch size")
PARTIAL = ("microbatches may have any number of samples: let no branch, reshape or split depend on it, and give what belongs "
           "together a dimension of its own after the batch")


def holds(guard, size):
    try:
        return bool(guard.subs({symbol: size for symbol in guard.free_symbols}))
    except (TypeError, ArithmeticError):  # it has no value there
        return True


class BatchGuards:
    """While it is entered, notes guards and their lines, of code that is called from the code object `outermost`."""

    def __init__(self, outermost):
        self._outermost, self._noted = outermost, []

    def __enter__(self):
        log = ShapeEnv._log_guard

        def noted(env, prefix, guard, *args, **kwargs):
            if prefix == "eval":  # others bind nothing: they are suppressed, or left to the run
                self._noted.append((guard, place_of_frame(sys._getframe(1), self._outermost)))
            return log(env, prefix, guard, *args, **kwargs)

        self._replaced = replaced(ShapeEnv, "_log_guard", noted)
        self._replaced.__enter__()
        return self

    def __exit__(self, *error):
        return self._replaced.__exit__(*error)

    def refusal(self, size):
        """What is wrong with the line of the first guard that some batch sizes break, traced with `size` samples; "": no
        guard is such."""
        for guard, where in self._noted:
            broken = next((other for other in SIZES if not holds(guard, other)), None)
            if broken is not None:
                break
        else:
            return ""
        of_line = [guard for guard, place in self._noted if place == where]
        if sum(all(holds(guard, other) for guard in of_line) for other in SIZES) <= 1:
            return at(where, f"the batch size becomes the constant {size} here; {FIXED}")
        return at(where, f"what is traced here with {size} samples does not hold for {broken}; {PARTIAL}")
