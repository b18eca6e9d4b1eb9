"""Means over targets of which some are ignored, or that weigh classes, exact whatever the microbatches.

Such a loss is the sum over all targets of a minibatch, divided by how many count, or by the weights of their classes. A
microbatch cannot know that number, so it becomes an input, TOKEN_SHARE: for every sample the samples of its minibatch per
target that counts. The loss of a microbatch is then a mean over its samples, and means over samples are exact for every
plan.
"""

import inspect

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind
from torch.overrides import TorchFunctionMode

from ._values import ExportError, aten

TOKEN_SHARE = "token_share"
IGNORED = -100  # PyTorch's default
MEANS = nn.functional.cross_entropy, nn.functional.nll_loss


def has_ignored(tensors):
    return any(not t.is_floating_point() and t.dtype is not torch.bool and bool((t == IGNORED).any()) for t in tensors)


def mean_over_targets(function, args, kwargs):
    """The arguments of a mean over targets that are numbers of classes; None for other calls."""
    if function not in MEANS:
        return None
    given = inspect.signature(function).bind(*args, **kwargs)
    given.apply_defaults()
    options = given.arguments
    return None if options["reduction"] != "mean" or options["target"].is_floating_point() else options


def counts_unequally(options):
    return options["weight"] is not None or options["ignore_index"] != IGNORED


class SeenMeans(TorchFunctionMode):
    """Counts the means whose targets do not all count alike."""

    number = 0

    def __enter__(self):
        self.number = 0
        return super().__enter__()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        options = mean_over_targets(function, args, kwargs or {})
        if options is not None:
            self.number += counts_unequally(options)
        return function(*args, **(kwargs or {}))


class TokenMeans(TorchFunctionMode):
    """Replaces means over targets by sums over samples, weighted with their share: all, or those that count unequally."""

    def __init__(self, share, all_means):
        super().__init__()
        self.share, self.all_means, self.number = share, all_means, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        options = mean_over_targets(function, args, kwargs or {})
        if options is None or not (self.all_means or counts_unequally(options)):
            return function(*args, **(kwargs or {}))
        self.number += 1
        scores = options["input"]
        logs = scores if function is nn.functional.nll_loss else torch.log_softmax(scores, 1)
        return self.mean(logs, options["target"], options["weight"], options["ignore_index"],
                         options.get("label_smoothing", 0.0))

    def mean(self, logs, target, weight, ignore_index, smoothing):
        ignored = target.eq(ignore_index)
        known = target.clamp(min=0) if ignore_index < 0 else target.masked_fill(ignored, 0)
        losses = -logs.gather(1, known.unsqueeze(1)).squeeze(1)
        if weight is not None:
            losses = losses * weight[known]
            logs = logs * weight.view(-1, *[1] * (logs.dim() - 2))
        if smoothing:
            losses = (1 - smoothing) * losses - smoothing / logs.shape[1] * logs.sum(1)
        each = torch.where(ignored, 0.0, losses)
        return (each.reshape(self.share.shape[0], -1).sum(1) * self.share).mean()


def weighted(objective, tensors, all_means):
    """The loss of an objective without token weights, computed with them; the last tensor is the share."""
    with TokenMeans(tensors[-1], all_means) as means:
        loss = objective(*tensors[:-1])
    if means.number != 1:
        raise ExportError(f"the model has {means.number} cross entropies with a mean, token weights need one; "
                          "export with weigh_tokens=False")
    return loss


def chosen_losses(program):
    """The last choice before the loss: where TokenMeans leaves out ignored targets."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    for node in nodes_before(output):
        if node.target is aten.where.ScalarSelf and node.args[0].target is aten.eq.Scalar:
            return node
    raise ExportError("which targets count is not found in the graph; export with weigh_tokens=False")


def nodes_before(last):
    """The nearest first."""
    queue, seen = list(last.all_input_nodes), set()
    while queue:
        node = queue.pop(0)
        yield node
        queue += [source for source in node.all_input_nodes if source not in seen]
        seen.update(node.all_input_nodes)


def class_weights(choice):
    """The node with the weight of each target's class; None where classes weigh alike."""
    target = choice.args[0].args[0]
    for node in nodes_before(choice):
        if node.target is aten.index.Tensor and len(node.args[1]) == 1 and node.args[1][0].all_input_nodes[:1] == [target]:
            return node
    return None


def constants_of(program):
    """Buffers and constants by the nodes that stand for them."""
    specs = zip((node for node in program.graph.nodes if node.op == "placeholder"), program.graph_signature.input_specs)
    stored = {**program.constants, **program.state_dict}
    return {node: stored[spec.target] for node, spec in specs
            if spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR) and spec.target in stored}


def token_counter(program, names):
    """A function of the model's inputs (the share left out): how much the targets of each sample count."""
    choice = chosen_losses(program)
    wanted = [node for node in (choice.args[0], class_weights(choice)) if node is not None]
    graph, root = fx.Graph(), nn.Module()
    inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    copies = {node: graph.placeholder(name) for node, name in zip(inputs, names)}
    constants = constants_of(program)
    needed, stack = set(), list(wanted)
    while stack:
        node = stack.pop()
        if node not in copies and node not in needed:
            needed.add(node)
            stack += node.all_input_nodes
    for node in program.graph.nodes:
        if node not in needed:
            continue
        if node in constants:
            root.register_buffer(node.name, constants[node].detach().clone())
            copies[node] = graph.get_attr(node.name)
        elif node.op == "placeholder":
            raise ExportError("which targets count depends on weights; export with weigh_tokens=False")
        else:
            copies[node] = graph.node_copy(node, copies.get)
    graph.output([copies[node] for node in wanted])
    module = fx.GraphModule(root, graph)

    def counts(*tensors):
        ignored, *weights = module(*tensors, torch.ones(len(tensors[0])))
        counted = weights[0].double().masked_fill(ignored, 0) if weights else ~ignored
        return counted.reshape(len(tensors[0]), -1).sum(1)

    return counts


def token_shares(counts, minibatch):
    """For every sample: the samples of its minibatch per target that counts."""
    shares = []
    for part in counts.split(minibatch):
        if part.sum().item() == 0:
            raise ExportError(f"a minibatch of {len(part)} samples has no target that counts: all are ignored")
        shares.append(torch.full((len(part),), len(part) / part.sum().item(), dtype=torch.float32))
    return torch.cat(shares)
