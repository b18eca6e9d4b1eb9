"""Loops that torch keeps as one operator (scan, while_loop) are written out, turn by turn."""

import contextlib

import torch
from torch._higher_order_ops import utils
from torch._higher_order_ops.scan import ScanOp
from torch._higher_order_ops.while_loop import WhileLoopOp
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.utils._python_dispatch import _disable_current_modes

from ._guards import replaced
from ._values import ExportError

MAX_TURNS = 1_000


def scan_turns(self, step, carried, sequences, additional_inputs=()):
    """What scan computes; its length is that of the sequences, which is static."""
    length = sequences[0].shape[0]
    if not isinstance(length, int):
        raise ExportError("a scan over the batch, whose size differs between microbatches; scan over another dimension")
    carried, made = list(carried), []
    for turn in range(length):
        results = list(step(*carried, *(sequence.select(0, turn) for sequence in sequences), *additional_inputs))
        made.append(results[len(carried):])
        carried = results[:len(carried)]
    return (*carried, *(torch.stack(parts) for parts in zip(*made)))


def while_turns(self, condition, body, carried, others=(), **kwargs):
    known = KnownValues()
    for _ in range(MAX_TURNS):
        if not known.is_true(condition(*carried, *others)):
            return tuple(carried)
        carried = body(*carried, *others)
    raise ExportError(f"a while_loop takes more than {MAX_TURNS:,} turns, and each is written out; let it "
                      "turn less often, or compute with whole tensors")


class KnownValues:
    """Values of traced tensors that depend on no input and no weight, such as a counter's."""

    def __init__(self):
        self._tracer = get_proxy_mode().tracer
        self._values = {}  # by node

    def is_true(self, traced):
        if not isinstance(traced, torch.Tensor):
            return bool(traced)
        node = get_proxy_slot(traced, self._tracer).proxy.node
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return self._value(node).item()

    def _value(self, node):
        if node not in self._values:
            self._values[node] = self._computed(node)
        return self._values[node]

    def _computed(self, node):
        if node.op == "get_attr":
            return getattr(self._tracer.root, node.target)
        is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if node.op != "call_function" or is_random:
            raise ExportError("how often a while_loop turns depends on its data: neither its memory nor its time would be "
                              "known before; write a loop of a fixed length, and choose with torch.where")
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self._value)
        return node.target(*args, **kwargs)


@contextlib.contextmanager
def loops_written_out():
    """torch compiles such loops before it traces them, and then knows neither their lines nor their modules: here nothing is
    compiled."""
    def as_it_is(function=None, **options):
        return function or as_it_is

    with (replaced(torch, "compile", as_it_is), replaced(utils, "setup_compilation_env", contextlib.nullcontext),
          replaced(ScanOp, "__call__", scan_turns), replaced(WhileLoopOp, "__call__", while_turns)):
        yield
