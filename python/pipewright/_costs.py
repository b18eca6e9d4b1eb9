"""FLOPs and memory traffic of a function's nodes, for estimates without measuring."""

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

from ._values import at_batch, bytes_at, is_operator, is_size, is_view, line_of, value

BATCH = 8  # at which FLOPs are counted


def concrete(argument, batch):
    if isinstance(argument, torch.Tensor):
        return torch.empty([at_batch(size, batch) for size in argument.shape], dtype=argument.dtype, device="meta")
    if isinstance(argument, torch.SymInt):
        return at_batch(argument, batch)
    if isinstance(argument, (list, tuple)):
        return type(argument)(concrete(element, batch) for element in argument)
    return argument


def elements(made, batch):
    tensors = [made] if isinstance(made, torch.Tensor) else [t for t in made if isinstance(t, torch.Tensor)]
    return sum(bytes_at(t, batch) // t.element_size() for t in tensors)


def node_flops(node, batch):
    if not is_operator(node) or is_view(node) or is_size(node):
        return 0
    formula = flop_registry.get(node.target._overloadpacket)
    made = value(node)
    if formula is None:
        return elements(made, batch)
    given = lambda argument: concrete(value(argument), batch)
    args = concrete(fx.map_arg(node.args, given), batch)
    kwargs = {name: concrete(fx.map_arg(argument, given), batch) for name, argument in node.kwargs.items()}
    return int(formula(*args, **kwargs, out_val=concrete(made, batch)))


def flops_per_sample(nodes):
    """A multiply and an add are two; an operator without a product counts one per element it makes."""
    return sum(node_flops(node, BATCH) for node in nodes) / BATCH


def traffic_line(nodes):
    """(fixed, per sample) of the bytes that the nodes read and write, an estimate; of what grows faster than the batch a
    line through zero."""
    return line_of(lambda batch: traffic(nodes, batch)) or [0, traffic(nodes, BATCH) // BATCH]


def traffic(nodes, batch):
    """Those bytes for one size of the batch."""
    total = 0
    for node in nodes:
        if not is_operator(node) or is_view(node) or is_size(node):
            continue
        for tensor in [value(node)] + [value(source) for source in node.all_input_nodes]:
            for one in tensor if isinstance(tensor, (list, tuple)) else [tensor]:
                if isinstance(one, torch.Tensor):
                    total += bytes_at(one, batch)
    return total
