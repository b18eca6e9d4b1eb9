"""What forward assigns to attributes of modules: torch.export does not keep it, so a step would not see what another left.

Most such attributes are written before they are read, as caches and auxiliary losses are, and do no harm. Refused are a
tensor whose old value the graph reads, and a number whose new value changes the graph.
"""

import sys

import torch
from torch import nn

from ._guards import replaced
from ._places import at, place_of_frame
from ._values import ExportError

NEW = object()  # the attribute was not there


class Assignments:
    """While it is entered, notes what code called from `outermost` assigns; then attributes are as before."""

    def __init__(self, outermost):
        self._outermost = outermost
        self._before, self._after = {}, {}  # by module and name: module, value, line

    def __enter__(self):
        assign = nn.Module.__setattr__

        def noted(module, name, given):
            registered = any(name in names for names in (module._parameters, module._buffers, module._modules))
            where = "" if registered else place_of_frame(sys._getframe(1), self._outermost)
            if where:
                self._before.setdefault((id(module), name), (module, module.__dict__.get(name, NEW), where))
                self._after[id(module), name] = given
            assign(module, name, given)

        self._replaced = replaced(nn.Module, "__setattr__", noted)
        self._replaced.__enter__()
        return self

    def __exit__(self, *error):
        self._replaced.__exit__(*error)
        for (_, name), (module, before, _) in self._before.items():
            if before is NEW:
                module.__dict__.pop(name, None)
            else:
                module.__dict__[name] = before

    def _changed(self, kinds):
        """Module, name, old and new value, and line of what had such a value."""
        rows = [(module, key[1], before, self._after[key], where) for key, (module, before, where) in self._before.items()]
        return [row for row in rows if type(row[2]) in kinds and row[3] is not row[2]]

    def refuse_tensors(self, constants):
        """Refuses an assignment in place of a tensor that the graph reads."""
        read = {tensor.untyped_storage()._cdata for tensor in constants if isinstance(tensor, torch.Tensor)}
        for _, name, before, _, where in self._changed((torch.Tensor,)):
            if before.untyped_storage()._cdata in read:
                raise ExportError(at(where, f"forward reads the attribute {name} and assigns another tensor to it, which the "
                                     "next step would not see; make it a buffer with register_buffer(), and change it in "
                                     f"place: self.{name}.copy_(...)"))

    def refuse_numbers(self, graph_text):
        """Refuses numbers that forward counts up and computes with. `graph_text` traces the module again."""
        changed = self._changed((bool, int, float))
        text = graph_text() if changed else ""
        for module, name, before, after, where in changed:
            module.__dict__[name] = after
            try:
                other = graph_text()
            finally:
                module.__dict__[name] = before
            if other != text:
                raise ExportError(at(where, f"forward changes the attribute {name} and computes with it, and the next step "
                                     f"would not see the change; make it a buffer, register_buffer(\"{name}\", "
                                     f"torch.tensor({before})), and change it in place: self.{name}.add_(1)"))
