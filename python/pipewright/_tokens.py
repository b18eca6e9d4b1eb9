"""Means over targets of which some are ignored (labels of -100), exact whatever the microbatches.

Such a loss is the sum over all targets of a minibatch, divided by how many count. A microbatch cannot know that number, so
it becomes an input, TOKEN_SHARE: for every sample the samples of its minibatch per target that counts. The loss of a
microbatch is then a mean over its samples, and means over samples are exact for every plan.
"""

import inspect

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode

from ._values import ExportError, aten

TOKEN_SHARE = "token_share"
IGNORED = -100  # PyTorch's default


def has_ignored(tensors):
    return any(not t.is_floating_point() and t.dtype is not torch.bool and bool((t == IGNORED).any()) for t in tensors)


class TokenMeans(TorchFunctionMode):
    """Replaces cross entropies with a mean by sums over samples, weighted with their share."""

    def __init__(self, share):
        super().__init__()
        self.share, self.number = share, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is not nn.functional.cross_entropy:
            return function(*args, **kwargs)
        given = inspect.signature(function).bind(*args, **kwargs)
        given.apply_defaults()
        scores, target, options = given.arguments["input"], given.arguments["target"], given.arguments
        if options["reduction"] != "mean" or target.is_floating_point():
            return function(*args, **kwargs)
        if options["weight"] is not None or options["label_smoothing"] != 0:
            raise ExportError("a mean over tokens with weights of classes or smoothed labels is not exact over "
                              "microbatches; leave them out, or export with weigh_tokens=False")
        self.number += 1
        ignored = target.eq(options["ignore_index"])
        chosen = torch.log_softmax(scores, 1).gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
        each = torch.where(ignored, 0.0, -chosen)
        return (each.reshape(self.share.shape[0], -1).sum(1) * self.share).mean()


def weighted(objective, tensors):
    """The loss of an objective without token weights, computed with them; the last tensor is the share."""
    with TokenMeans(tensors[-1]) as means:
        loss = objective(*tensors[:-1])
    if means.number != 1:
        raise ExportError(f"the model has {means.number} cross entropies with a mean, token weights need one; "
                          "export with weigh_tokens=False")
    return loss


def ignored_mask(program):
    """The node that says which targets TokenMeans leaves out: the mask of the last choice before the loss."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    queue, seen = list(output.all_input_nodes), set()
    while queue:
        node = queue.pop(0)
        if node.target is aten.where.ScalarSelf and node.args[0].target is aten.eq.Scalar:
            return node.args[0]
        queue += [source for source in node.all_input_nodes if source not in seen]
        seen.update(node.all_input_nodes)
    raise ExportError("which targets count is not found in the graph; export with weigh_tokens=False")


def token_counter(program, names):
    """A function of the model's inputs (the share left out): how many targets of each sample count."""
    mask = ignored_mask(program)
    graph = fx.Graph()
    inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    copies = {node: graph.placeholder(name) for node, name in zip(inputs, names)}
    needed, stack = set(), [mask]
    while stack:
        node = stack.pop()
        if node not in copies and node not in needed:
            needed.add(node)
            stack += node.all_input_nodes
    if any(node.op == "placeholder" for node in needed):
        raise ExportError("which targets count depends on weights; export with weigh_tokens=False")
    for node in program.graph.nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.get)
    graph.output(copies[mask])
    module = fx.GraphModule(nn.Module(), graph)
    return lambda *tensors: (~module(*tensors, torch.ones(len(tensors[0])))).reshape(len(tensors[0]), -1).sum(1)


def token_shares(counts, minibatch):
    """For every sample: the samples of its minibatch per target that counts."""
    shares = []
    for part in counts.split(minibatch):
        if int(part.sum()) == 0:
            raise ExportError(f"a minibatch of {len(part)} samples has no target that counts: all are ignored")
        shares.append(torch.full((len(part),), len(part) / int(part.sum()), dtype=torch.float32))
    return torch.cat(shares)
