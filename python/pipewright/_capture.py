"""From a module and sample inputs to one functional ATen graph, with the batch symbolic."""

import warnings

import torch
from torch import nn
from torch._decomp import get_decompositions
from torch.export.graph_signature import InputKind

from ._arguments import Arguments
from ._batch_guards import BatchGuards
from ._draws import Draws, python_draws_refused
from ._failures import failure
from ._fractions import store_fractions
from ._guards import (guarded, refuse_control_flow, refuse_generators, refuse_keywords, refuse_modules,
                      refuse_numbers_of_tensors)
from ._loops import loops_written_out
from ._no_grad import NoGrad
from ._own_gradients import own_gradients_kept
from ._places import at, place_of_error
from ._state import Assignments
from ._tokens import TOKEN_SHARE, SeenMeans, has_ignored, weighted
from ._values import ExportError, aten, refuse, value

PREFIX = "module."


def named_loss(name):
    def cross_entropy(output, target):
        scores = getattr(output, "logits", output)
        if scores.dim() > 2 and scores.shape[:-1] == target.shape:
            scores, target = scores.flatten(0, -2), target.flatten()
        return nn.functional.cross_entropy(scores, target)

    def mse(output, target):
        return nn.functional.mse_loss(getattr(output, "logits", output), target)

    known = {"cross_entropy": cross_entropy, "mse": mse}
    if name not in known:
        raise ExportError(f'unknown loss "{name}"; known: {", ".join(known)}, or give a function of output and target')
    return known[name]


class Objective(nn.Module):
    """The module and its loss as one function of tensors."""

    def __init__(self, module, loss, make_arguments):
        super().__init__()
        self.module = module
        self.loss = loss
        self._make_arguments = make_arguments
        self.means = SeenMeans()
        self.train(module.training)

    def forward(self, *tensors):
        for tensor in tensors[1:]:  # or each input's batch has a symbol of its own
            torch._check(tensor.shape[0] == tensors[0].shape[0])
        args, kwargs, targets = self._make_arguments(tensors)
        with NoGrad(), self.means:
            with Draws():
                output = self.module(*args, **kwargs)
            if self.loss is not None:
                return self.loss(output, *targets)
        if isinstance(output, dict):
            output = output.get("loss", output)
        return getattr(output, "loss", output)


class WeightedObjective(nn.Module):
    """The same for a mean over tokens; the last tensor is what each sample's are multiplied with."""

    def __init__(self, objective, all_means):
        super().__init__()
        self.all_means = all_means
        self.module, self.loss = objective.module, objective.loss
        self._objective = [objective]  # a list: its parameters have names already
        self.train(objective.training)

    def forward(self, *tensors):
        return weighted(self._objective[0], tensors, self.all_means)


def exported(objective, tensors):
    batch = torch.export.Dim("batch", min=2, max=1 << 20)
    with guarded(), loops_written_out(), own_gradients_kept(), python_draws_refused():
        return torch.export.export(objective, tensors, dynamic_shapes=(({0: batch},) * len(tensors),), strict=False)


def traced(objective, arguments):
    """The exported program, or an ExportError with the line of the model."""
    outermost = Objective.forward.__code__
    guards, assignments = BatchGuards(outermost), Assignments(outermost)
    try:
        with guards, assignments:
            program = exported(objective, arguments.tensors)
        assignments.refuse_tensors(program.constants.values())
        with Assignments(outermost):  # what is traced again stays as it was, too
            assignments.refuse_numbers(lambda: str(exported(objective, arguments.tensors).graph))
        with guarded():
            return program.run_decompositions(get_decompositions([aten.affine_grid_generator]))  # its own backward fixes sizes
    except ExportError as error:
        raise ExportError(at(place_of_error(error, outermost), str(error))) from error
    except Exception as error:
        refuse_keywords(objective.module)
        with Assignments(outermost):
            text = failure(error, objective, arguments.tensors, guards, outermost)
        raise ExportError(text) from error


def traced_with_shares(objective, arguments, all_means):
    arguments.names.append(TOKEN_SHARE)
    arguments.tensors += (torch.ones(len(arguments.tensors[0])),)
    return traced(WeightedObjective(objective, all_means), arguments)


def traced_exactly(objective, arguments, weigh_tokens):
    """With a share of each sample where a mean over targets needs one, to be that of the whole minibatch."""
    if has_ignored(arguments.tensors) if weigh_tokens is None else weigh_tokens:
        return traced_with_shares(objective, arguments, all_means=True)
    program = traced(objective, arguments)
    if weigh_tokens is False or objective.means.number == 0:
        return program
    if objective.means.number == 1:
        return traced_with_shares(objective, arguments, all_means=False)
    warnings.warn(f"the model has {objective.means.number} means over targets that do not count alike; each is that of its "
                  "microbatch, as with gradient accumulation in PyTorch", stacklevel=4)
    return program


def capture(module, sample, loss, weigh_tokens=None):
    """The exported program of module and loss, and the names of its inputs."""
    if isinstance(loss, str):
        loss = named_loss(loss)
    refuse_modules(module)
    arguments = Arguments(module, sample, loss is not None)
    objective = Objective(module, loss, arguments.filled)
    program = traced_exactly(objective, arguments, weigh_tokens)
    refuse_generators(program)
    refuse_numbers_of_tensors(program)
    refuse_control_flow(program)
    for node in list(program.graph.nodes):
        replace(node)
    store_fractions(program.graph)
    store_complex_as_real(program, module.state_dict())
    return program, arguments


def store_complex_as_real(program, named):
    """Complex constants (rotary embeddings have such) are stored as pairs of real numbers, of which the graph makes complex
    ones."""
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    stored = {InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
    changed = set(program.graph_signature.buffers_to_mutate.values())
    for node, spec in zip(placeholders, program.graph_signature.input_specs):
        if spec.kind not in stored or not value(node).is_complex() or spec.target in changed:
            continue
        if spec.target.removeprefix(PREFIX) in named:
            refuse(node, f"the buffer {spec.target.removeprefix(PREFIX)} is complex, and the state_dict() cannot have it as "
                   "it is stored", "register it with persistent=False")
        tensors = program.state_dict if spec.target in program.state_dict else program.constants
        tensors[spec.target] = torch.view_as_real(tensors[spec.target]).contiguous()
        with program.graph.inserting_before(next(n for n in program.graph.nodes if n.op != "placeholder")):
            pairs = program.graph.call_function(aten.view_as_complex.default, (node,))
        pairs.meta = {"val": value(node)}
        node.replace_all_uses_with(pairs, delete_user_cb=lambda user, made=pairs: user is not made)
        node.meta["val"] = torch.view_as_real(value(node))


def replace(node):
    """Operators by others that compute the same, and whose backward can be traced."""
    pools = {aten.adaptive_avg_pool1d.default: 1, aten.adaptive_avg_pool2d.default: 2, aten.adaptive_avg_pool3d.default: 3}
    # The strides of attention with gradients may differ from those without.
    if node.target is aten.view.default:
        node.target = aten.reshape.default
    # With the samples' channels last, a pool to one element sets strides in place.
    elif node.target in pools and all(size == 1 for size in node.args[1]):
        node.args = (node.args[0], list(range(-pools[node.target], 0)), True)
        node.target = aten.mean.dim
    # An assignment to a part of a tensor, which has no derivative of its own.
    elif node.target is aten.copy.default:
        copy_source(node)


def copy_source(node):
    """copy(part, source) becomes the source, in the part's shape and type."""
    part, source = node.args[:2]
    if value(source).shape != value(part).shape:
        with node.graph.inserting_before(node):
            expanded = node.graph.call_function(aten.expand_as.default, (source, part))
        expanded.meta = {**node.meta, "val": value(source).expand(value(part).shape)}
        source = expanded
    if value(source).dtype is value(part).dtype:
        node.target, node.args, node.kwargs = aten.clone.default, (source,), {}
    else:
        node.target, node.args, node.kwargs = aten._to_copy.default, (source,), {"dtype": value(part).dtype}
