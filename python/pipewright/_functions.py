"""One layer as pure functions, split out of the joint graph of its forward and backward.

C  constants                                        -> what depends on the batch size alone; made once for each size
F  inputs, parameters, buffers, constants, C        -> output, new buffers, private tensors
I  kept tensors, parameters, gradient, constants, C -> gradients of the inputs, carried tensors
W  kept tensors, gradient, constants, C, carried    -> gradients of the parameters

Kept tensors are inputs, the output, and private tensors. W reads no parameter: with weights that change between forward
and backward, I and W of one microbatch must see the same ones. What W would need of them is carried. Tensors with a number
for each pair of samples are neither kept nor carried, since memory is counted per sample: I makes them again.
"""

import operator

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from ._code import Writer
from ._borders import is_batch
from ._fractions import store_fractions
from ._own_gradients import is_own, run_own
from ._values import (ExportError, aten, at_batch, bytes_at, compares_samples, is_operator, is_random, is_size, is_tensor,
                      is_view, refuse, tensor_inputs, value)


def run_layer(layer, arguments):
    """The layer's output and new buffers for these inputs, parameters, buffers and constants."""
    held = dict(zip(layer.inputs + layer.parameters + layer.buffers + layer.constants, arguments))

    def given(node):
        return value(node) if is_size(node) else held[node]

    for node in layer.nodes:
        target = run_own if is_own(node) else node.target
        held[node] = target(*fx.map_arg(node.args, given), **fx.map_arg(node.kwargs, given))
    return [held[node] for node in [layer.root] + [node for node, _ in layer.updates]]


def contiguous_like(tensor):
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def joint_graph(layer, wanted, borders):
    """(arguments of F but C, gradient) -> (output, new buffers, input gradients, parameter gradients)."""
    num_inputs, num_leaves = len(layer.inputs), len(layer.inputs) + len(layer.parameters)
    fakes = [value(n) for n in layer.inputs + layer.parameters + layer.buffers + layer.constants]

    def run(arguments):
        inputs = [borders[n].back(a) if n in borders else a for n, a in zip(layer.inputs, arguments)]
        output, *updates = run_layer(layer, inputs + arguments[num_inputs:])
        return [borders[layer.root].out(output)] + updates

    def crossing(node, tensor):
        return contiguous_like(borders[node].out(tensor) if node in borders else tensor)

    def both(*arguments):
        arguments, gradient = [a.detach() for a in arguments[:-1]], arguments[-1]
        asked = [i for i in range(num_leaves) if i >= num_inputs or wanted[i]]
        leaves = [i for i in asked if arguments[i].is_floating_point()]
        for i in leaves:
            arguments[i].requires_grad_()
        with torch.enable_grad():
            output, *updates = run(arguments)
        found = {}
        if leaves and output.requires_grad:
            found = dict(zip(leaves, torch.autograd.grad(output, [arguments[i] for i in leaves], gradient,
                                                         allow_unused=True)))
        gradients = []
        for i in asked:
            given = found.get(i)
            if given is None:
                given = torch.zeros(arguments[i].shape, dtype=arguments[i].dtype, device=arguments[i].device)
            gradients.append(given.contiguous())
        return [output.detach().contiguous()] + [update.detach() for update in updates] + gradients

    mode = next(fake.fake_mode for fake in fakes if hasattr(fake, "fake_mode"))
    with mode, torch._dispatch.python.enable_python_dispatcher():
        fresh = [crossing(layer.inputs[i], x) if i < num_inputs else x.detach() for i, x in enumerate(fakes)]
        fresh.append(crossing(layer.root, value(layer.root)))
        module = make_fx(both, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*fresh)
        simplify(module.graph)
        if any(is_operator(node) and node.target._schema.is_mutable for node in module.graph.nodes):  # views are changed
            module.recompile()
            pure = torch.func.functionalize(module, remove="mutations")
            module = make_fx(pure, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*fresh)
            simplify(module.graph)
    return module.graph


def simplify(graph):
    """Drops what only mattered to autograd."""
    dropped = (aten.detach.default, aten.alias.default, aten.lift_fresh.default, aten.lift_fresh_copy.default)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in dropped:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target is aten._assert_tensor_metadata.default:
            graph.erase_node(node)
    store_fractions(graph)
    make_pure(graph)
    use_generators(graph)
    graph.eliminate_dead_code()


def use_generators(graph):
    """Random operators become those that take a generator, so that what they draw depends on no plan."""
    for node in graph.nodes:
        if is_operator(node) and is_random(node):
            name = {"default": "generator", "low": "low_generator"}.get(node.target._overloadname)
            if name:  # a packet takes "" for "default"
                node.target = getattr(node.target.overloadpacket, name, node.target)


def make_pure(graph):
    """Operators that change a tensor of the graph's own in place, as PyTorch's RMS norm does inside, become those that
    make a new one. Others, such as changes of most views, stay and are refused."""
    place = {node: i for i, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        if not (is_operator(node) and node.target._schema.is_mutable):
            continue
        name, changed = node.target._schema.name.removeprefix("aten::"), node.args[0]
        overload = "int" if name == "transpose_" else node.target._overloadname
        pure = getattr(getattr(aten, name.removesuffix("_"), None), overload, None)
        views = [user for user in changed.users if is_view(user) and place[user] < place[node]]
        is_own = changed.op == "call_function" and not is_view(changed) and not views
        if torch.Tag.inplace_view in node.target.tags:  # its shape changes, not its numbers
            is_own = changed.op == "call_function"
        if not name.endswith("_") or pure is None or pure._schema.is_mutable:
            continue
        if is_own_slice(node, place):
            change_slice(graph, node, pure, place)
            continue
        if not is_own:
            continue
        node.target = pure
        changed.replace_all_uses_with(node, delete_user_cb=lambda user: place[user] > place[node])


def is_own_slice(node, place):
    """Whether a node changes a slice of a tensor of the graph's own, as the backward of a real FFT does; nobody else reads
    the slice, and there is no other view of the tensor."""
    part = node.args[0]
    if part.target is not aten.slice.Tensor or set(part.users) != {node} or node.users:
        return False
    base = part.args[0]
    views = [user for user in base.users if is_view(user) and place[user] < place[node]]
    return base.op == "call_function" and not is_view(base) and views == [part]


def change_slice(graph, node, pure, place):
    part, base = node.args[0], node.args[0].args[0]
    node.target = pure
    with graph.inserting_after(node):
        whole = graph.call_function(aten.slice_scatter.default, (base, node, *part.args[1:]))
    whole.meta = {"val": value(base)}
    base.replace_all_uses_with(whole, delete_user_cb=lambda user: user is not whole and place[user] > place[node])


def halve_convolutions(graph):
    """convolution_backward becomes one for the input and one for weight and bias, which reads no weight."""
    for node in list(graph.nodes):
        if node.target is not aten.convolution_backward.default:
            continue
        mask = list(node.args[-1])
        if not (mask[1] or mask[2]):
            continue
        with graph.inserting_before(node):
            weight = value(node.args[2])
            shape = graph.call_function(aten.empty.memory_format, (list(weight.shape),), {"dtype": weight.dtype})
            shape.meta = {"val": weight}
        half = node
        if mask[0]:
            with graph.inserting_after(node):
                half = graph.node_copy(node)
                half.meta = dict(node.meta)
            node.args = node.args[:-1] + ([True, False, False],)
            for user in list(node.users):
                if user.target is operator.getitem and user.args[1] != 0:
                    user.replace_input_with(node, half)
        half.args = half.args[:2] + (shape,) + half.args[3:-1] + ([False, mask[1], mask[2]],)


def drop_running_statistics(graph):
    """In training, the backward of a batch norm does not read the running statistics it is given."""
    for node in graph.nodes:
        if node.target is aten.native_batch_norm_backward.default and node.args[7]:
            node.args = node.args[:3] + (None, None) + node.args[5:]


class Functions:
    """The four functions of a layer as sets of nodes of its joint graph."""

    def __init__(self, layer, wanted, borders):
        self.layer, self.wanted = layer, wanted
        self.graph = joint_graph(layer, wanted, borders)
        halve_convolutions(self.graph)
        drop_running_statistics(self.graph)
        self._name_arguments()
        self._keep_old_buffers()
        self.graph.eliminate_dead_code()
        self.position = {node: i for i, node in enumerate(self.graph.nodes)}
        self._name_results()
        self._check()
        self._classify()
        self._split()

    def _name_arguments(self):
        given = iter([node for node in self.graph.nodes if node.op == "placeholder"])
        layer = self.layer
        self.inputs = [next(given) for _ in layer.inputs]
        self.parameters = [next(given) for _ in layer.parameters]
        self.buffers = [next(given) for _ in layer.buffers]
        self.constants = [next(given) for _ in layer.constants]
        self.gradient = next(given)

    def _name_results(self):
        results = list(self.graph.output_node().args[0])
        num_updates, num_wanted = len(self.layer.updates), sum(self.wanted)
        self.output, results = results[0], results[1:]
        self.updates, results = results[:num_updates], results[num_updates:]
        self.input_gradients, self.parameter_gradients = results[:num_wanted], results[num_wanted:]

    def _keep_old_buffers(self):
        """Backward reads a copy of a buffer that forward changes."""
        after = self._after_gradient()
        for buffer in self.buffers:
            late = [user for user in buffer.users if user in after]
            if not late:
                continue
            with self.graph.inserting_before(next(n for n in self.graph.nodes if n.op != "placeholder")):
                copy = self.graph.call_function(aten.clone.default, (buffer,))
                copy.meta = {"val": value(buffer)}
            for user in late:
                user.replace_input_with(buffer, copy)

    def _after_gradient(self):
        after = {self.gradient}
        for node in self.graph.nodes:
            if node.op != "call_function" or is_size(node):
                continue
            if any(source in after for source in tensor_inputs(node)):
                after.add(node)
        return after

    def _check(self):
        for node in self.graph.nodes:
            if node.op == "get_attr":
                raise ExportError(f"layer {self.layer.name} holds a tensor that is not registered ({node.target}); "
                                  "make it a buffer with register_buffer()")
            if not is_operator(node):
                continue
            if node.target._schema.is_mutable:
                refuse(self.layer.root, f"layer {self.layer.name}: {node.target} changes a tensor in place in its backward",
                       "use operators that make a new tensor there")
            takes_generator = any(a.name == "generator" for a in node.target._schema.arguments)
            if is_random(node) and node.target is not aten.native_dropout.default and not takes_generator:
                drawn = next((n for n in self.layer.nodes if n.target is node.target), node)  # it knows its line
                refuse(drawn, f"layer {self.layer.name} draws random numbers with {node.target}, which takes no generator",
                       "use nn.Dropout, torch.rand or torch.bernoulli")

    def _classify(self):
        """What depends on the batch size and constants alone, on weights alone, and on the gradient."""
        self.after = self._after_gradient()
        self.fixed, self.of_weights = set(self.constants), set(self.parameters)
        for node in self.graph.nodes:
            if node.op != "call_function" or node in self.after or is_random(node) or is_size(node):
                continue
            sources = tensor_inputs(node)
            if all(source in self.fixed for source in sources):
                self.fixed.add(node)
            elif all(source in self.fixed or source in self.of_weights for source in sources):
                self.of_weights.add(node)

    def _ancestors(self, starts, within=None):
        need, stack = set(), [node for node in starts]
        while stack:
            node = stack.pop()
            if node in need or node.op == "placeholder" or (within is not None and node not in within):
                continue
            need.add(node)
            stack += tensor_inputs(node)
        return need

    def _sorted(self, nodes):
        return sorted(nodes, key=self.position.get)

    def _split(self):
        of_inputs = self._ancestors(self.input_gradients, self.after)
        of_weights = self._ancestors(self.parameter_gradients, self.after) - of_inputs
        # What makes both, or reads weights, is computed with the input gradients and carried; an operator with several
        # results may be found to be such after one of its results was looked at.
        num_before = -1
        while num_before != len(of_inputs):
            num_before = len(of_inputs)
            for node in self._sorted(of_weights - of_inputs):
                parent = node.target is operator.getitem and node.args[0] in of_inputs
                if parent or any(source in self.of_weights or compares_samples(source) for source in tensor_inputs(node)):
                    of_inputs |= self._ancestors([node], self.after)
        of_weights -= of_inputs
        self._make_views_again(of_inputs, of_weights)
        kept_inputs, again_inputs = self._sources(of_inputs)
        kept_weights, again_weights = self._sources(of_weights)
        of_inputs, of_weights = of_inputs | again_inputs, of_weights | again_weights
        self.carried = self._sorted({source for node in of_weights for source in tensor_inputs(node)
                                     if source in of_inputs and source not in of_weights} |
                                    {g for g in self.parameter_gradients if g in of_inputs})
        kept = kept_inputs | kept_weights
        self.kept_inputs = [node for node in self.inputs if node in kept]
        self.keeps_output = self.output in kept and self.output not in self.inputs
        self.private = self._sorted(kept - set(self.inputs) - {self.output})
        self.input_nodes, self.weight_nodes = self._sorted(of_inputs), self._sorted(of_weights)
        forward = self._ancestors([self.output] + self.updates + self.private) - self.fixed
        self.forward_nodes = self._sorted(forward)
        read = {source for node in forward | of_inputs | of_weights for source in tensor_inputs(node)}
        results = [self.output, *self.updates, *self.input_gradients, *self.parameter_gradients]
        self.made_once = self._sorted(((read | set(results)) & self.fixed) - set(self.constants))
        self.made_once = [node for node in self.made_once if is_tensor(node)]
        self.fixed_nodes = self._sorted(self._ancestors(self.made_once))

    def _make_views_again(self, of_inputs, of_weights):
        """Views that both halves read are made by both, so that only their base is carried."""
        changed = True
        while changed:
            changed = False
            for node in self._sorted({s for n in of_weights for s in tensor_inputs(n) if s in of_inputs}):
                if node not in of_weights and is_view(node) and node.target is not operator.getitem:
                    of_weights.add(node)
                    changed = True

    def _sources(self, nodes):
        """What these nodes read of forward: what is kept, and what is made again of it (views, weights' own, pairs of
        samples)."""
        kept, again = set(), set()
        stack = [source for node in nodes for source in tensor_inputs(node) if source not in self.after]
        while stack:
            node = stack.pop()
            if node in self.fixed or node in self.parameters or node in again or node in kept:
                continue
            maker = node.args[0] if node.target is operator.getitem else node
            remade = node.op != "placeholder" and (node in self.of_weights or is_view(node) or
                                                   compares_samples(node) and not is_random(maker))
            if remade:
                again.add(node)
                stack += tensor_inputs(node)
            elif node is not self.gradient:
                kept.add(node)
        return kept, again

    def parts(self):
        """Name, nodes, arguments and results of each function."""
        kept = self.kept_inputs + ([self.output] if self.keeps_output else []) + self.private
        fixed = self.constants + self.made_once
        yield "constants", self.fixed_nodes, self.constants, self.made_once
        yield ("forward", self.forward_nodes, self.inputs + self.parameters + self.buffers + fixed,
               [self.output] + self.updates + self.private)
        yield ("backward_input", self.input_nodes, kept + self.parameters + [self.gradient] + fixed,
               self.input_gradients + self.carried)
        yield ("backward_weight", self.weight_nodes, kept + [self.gradient] + fixed + self.carried,
               self.parameter_gradients)

    @property
    def output_value(self):
        return value(self.output)

    def code(self):
        """The four functions as the file has them."""
        return {name: Writer(arguments).written(nodes, results) for name, nodes, arguments, results in self.parts()}

    def nodes_of(self, part):
        return next(nodes for name, nodes, _, _ in self.parts() if name == part)

    def batch_place(self, nodes):
        """[index, dimension, factor] of a tensor with factor * B in that dimension; None: there is none."""
        for i, node in enumerate(nodes):
            for dimension, size in enumerate(value(node).shape):
                factor = at_batch(size, 2) // 2
                if isinstance(size, torch.SymInt) and factor > 0 and is_batch(size, factor):
                    return [i, dimension, factor]
        return None

    def forward_batch(self):
        return self.batch_place(self.inputs)

    def backward_batch(self):
        return self.batch_place(self.kept_inputs + ([self.output] if self.keeps_output else []) + self.private +
                                [self.gradient])

    def mixes_samples(self):
        """Whether what is kept cannot be cut into samples: the batch is not its first dimension."""
        shapes = [value(node).shape for node in self.private]
        by_sample = all(len(shape) > 0 and is_batch(shape[0]) for shape in shapes)
        return bool(self.updates) or any(map(compares_samples, self.forward_nodes)) or not by_sample

    def reads_buffers(self):
        """Whether the output depends on what forward changes: it cannot be computed again later."""
        norms = (aten._native_batch_norm_legit_functional.default,)
        stack, seen = [self.output, *self.private], set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self.buffers:
                return True
            if node.op == "call_function":
                skipped = node.args[3:5] if node.target in norms and node.args[5] else ()
                stack += [source for source in tensor_inputs(node) if source not in skipped]
        return False

    def private_bytes(self, batch):
        return sum(bytes_at(value(node), batch) for node in self.private)

    def carried_bytes(self, batch):
        return sum(bytes_at(value(node), batch) for node in self.carried)
