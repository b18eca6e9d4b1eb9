"""Groups the nodes of a captured graph into layers with one output tensor each.

A layer is a block: the module path up to its first number ("transformer.h.3"), or a module with parameters of its own.
What follows the last of them is the loss. A layer reads outputs of other layers, model inputs, parameters and buffers.
What is made of model inputs and buffers alone (masks, positions), or of weights alone, is made again by every layer
that reads it; so are views. Layers that change or read one buffer, as a norm that is called twice does, become one.
"""

import collections
import operator

import torch
from torch.export.graph_signature import InputKind, OutputKind

from ._capture import PREFIX
from ._values import ExportError, aten, is_random, is_size, is_tensor, is_view, refuse, tensor_inputs, value

NO_OWNER = None


class Layer:
    def __init__(self, name, root):
        self.name, self.root = name, root
        self.nodes = []
        self.inputs, self.parameters, self.buffers, self.constants = [], [], [], []
        self.updates = []  # (node, name of the buffer)


def sample_shape(tensor):
    """A tensor's shape for the batch that the model was exported with."""
    return tuple(size.node.hint if isinstance(size, torch.SymInt) else size for size in tensor.shape)


class Graph:
    """An exported program and what its placeholders are."""

    def __init__(self, program):
        self.program = program
        self.graph = program.graph
        signature = program.graph_signature
        self.position = {node: i for i, node in enumerate(self.graph.nodes)}
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        self.kind, self.target = {}, {}
        for node, spec in zip(placeholders, signature.input_specs):
            self.kind[node], self.target[node] = spec.kind, spec.target
        self.inputs = [node for node in placeholders if self.kind[node] is InputKind.USER_INPUT]
        outputs = list(zip(self.graph.output_node().args[0], signature.output_specs))
        for changed, spec in outputs:
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                refuse(changed, f"the model changes its input {spec.target} in place", "change a clone of it")
        results = [node for node, spec in outputs if spec.kind is OutputKind.USER_OUTPUT]
        if len(results) != 1 or not is_tensor(results[0]) or value(results[0]).dim() != 0:
            shapes = ", ".join(str(sample_shape(value(node))) for node in results if is_tensor(node))
            raise ExportError(f"the model's output is not one loss but, for this sample batch, of shape {shapes}; "
                              "give a loss, or return a scalar tensor or something with .loss")
        self.loss = results[0]
        self.updates = {node: spec.target for node, spec in outputs if spec.kind is OutputKind.BUFFER_MUTATION}
        self.changed = set(self.updates.values())
        self.tied = self._tied_names()

    def tensor(self, name):
        program = self.program
        return program.state_dict[name] if name in program.state_dict else program.constants[name]

    def is_stored(self, node):
        return self.kind.get(node) in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)

    def is_trained(self, node):
        return self.kind.get(node) is InputKind.PARAMETER and self.tensor(self.target[node]).requires_grad

    def is_changed(self, node):
        return self.is_stored(node) and self.target[node] in self.changed

    def _tied_names(self):
        """By name of a parameter, the first one of the same memory."""
        first, names = {}, {}
        for node, kind in self.kind.items():
            if kind is InputKind.PARAMETER:
                tensor = self.tensor(self.target[node])
                key = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
                names[self.target[node]] = first.setdefault(key, self.target[node])
        return names


def module_path(node):
    stack = node.meta.get("nn_module_stack") or {}
    path = [entry[0] for entry in stack.values()][-1] if stack else ""
    return path[len(PREFIX):] if path.startswith(PREFIX) else ("" if path == PREFIX[:-1] else path)


def block_of(path, parametered):
    parts = path.split(".")
    for i, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[:i + 1])
    return path if path in parametered else ""


class Grouping:
    def __init__(self, graph, block):
        self.g = graph
        self.order = [node for node in graph.graph.nodes
                      if node.op == "call_function" and node.target is not aten._assert_tensor_metadata.default]
        self.parametered = {graph.target[n].rsplit(".", 1)[0].removeprefix(PREFIX) for n, kind in graph.kind.items()
                            if kind is InputKind.PARAMETER}
        self.block = block or (lambda path: block_of(path, self.parametered))
        self._classify()

    def _classify(self):
        """What depends on weights, what is made of weights alone, and of weights and changed buffers: no layer of its own."""
        g = self.g
        self.depends, self.weight_only, self.stored_only = {}, {}, {}
        for node in g.graph.nodes:
            if node.op == "placeholder":
                self.depends[node] = g.kind[node] is InputKind.PARAMETER or g.is_changed(node)
                self.weight_only[node] = g.is_stored(node) and not g.is_changed(node)
                self.stored_only[node] = g.is_stored(node)
            elif node.op == "call_function":
                sources = tensor_inputs(node)
                self.depends[node] = is_random(node) or any(self.depends[source] for source in sources)
                self.weight_only[node] = not is_random(node) and all(self.weight_only[source] for source in sources)
                self.stored_only[node] = all(self.stored_only[source] for source in sources)

    def readers(self, node):
        for user in node.users:
            if user in self.inline:
                yield from self.readers(user)
            else:
                yield user

    def layers(self):
        self.joined = {}  # by node, the key of a layer that changes a buffer in several places
        while True:
            layers = self._layers()
            shared = self._shared_buffer(layers)
            if shared is None:
                return layers
            buffer, readers = shared
            if not self._join(buffer, readers):
                refuse(readers[-1].root, f"the buffer {buffer.removeprefix(PREFIX)} is changed or read by several layers "
                       f"({', '.join(l.name for l in readers)})", "keep it within one module, and call that once, with "
                       "several inputs joined by torch.cat; a norm may go without it (track_running_stats=False)")

    def _shared_buffer(self, layers):
        """A buffer that is changed, and the layers that have it, if they are several."""
        for buffer in sorted({buffer for layer in layers for _, buffer in layer.updates}):
            readers = [layer for layer in layers if any(self.g.target[b] == buffer for b in layer.buffers)]
            if len(readers) > 1:
                return buffer, readers
        return None

    def _join(self, buffer, readers):
        """Makes one layer of all between the first node that reads the buffer and one that everything there leads to.
        False: they were one before."""
        order, body = self.order[:self.order.index(self.g.loss) + 1], set(self.body)
        place = {node: i for i, node in enumerate(order)}
        begin = next(i for i, node in enumerate(order)
                     if any(self.g.target.get(source) == buffer for source in node.all_input_nodes))
        end, reached = begin, max(place[layer.root] for layer in readers)
        while end < reached or order[end] not in body:
            end = max(reached, end + 1)
            reached = max(place[user] for node in order[begin:end] for user in node.users if user in place)
        joined = dict.fromkeys(order[begin:end + 1], self.key[order[end]])
        if joined.items() <= self.joined.items():
            return False
        self.joined |= joined
        return True

    def _layers(self):
        # Split, chunk and unbind with their items are made again by whoever reads them.
        self.inline = {n for n in self.order if is_view(n) and (not is_tensor(n) or n.target is operator.getitem)}
        while True:
            again = self._assign()
            if again is None:
                break
            # Several results that go to different layers: each makes them again.
            if is_random(again):
                refuse(again, f"the results of {again.target} are used by several layers",
                       "use them within one module")
            self.inline |= {again, *again.users}
        self._move_views()
        return self._collect()

    def _assign(self):
        """By node, the root of its layer: a node whose readers are all of one layer is that layer's."""
        g = self.g
        self.body = [n for n in self.order
                     if self.depends[n] and not self.weight_only[n] and n not in self.inline and not is_size(n)]
        self._name_blocks()
        self.owner = {}
        for node in reversed(self.body):
            owners = {self.owner[user] for user in self.readers(node) if user in self.owner} - {NO_OWNER}
            if node is g.loss:
                self.owner[node] = node
            elif not owners:
                self.owner[node] = NO_OWNER  # for an update of a buffer
            elif len(owners) == 1 and (self.key[next(iter(owners))] == self.key[node] or self.stored_only[node]):
                self.owner[node] = next(iter(owners))
            elif not is_tensor(node):
                return node
            else:
                self.owner[node] = node
        return None

    def _name_blocks(self):
        blocks = [self.block(module_path(node)) for node in self.body]
        last = max((i for i, name in enumerate(blocks) if name), default=-1)
        self.key, current = {}, ""
        for i, node in enumerate(self.body):
            if blocks[i]:
                current = blocks[i]
            if i > last and not is_view(node):
                current = "loss"
            self.key[node] = self.joined.get(node, current)

    def _is_whole_view(self, node):
        """A view of all of its base: the base may cross instead."""
        if not (node.op == "call_function" and is_view(node) and is_tensor(node) and node.args):
            return False
        base = node.args[0]
        return hasattr(base, "op") and is_tensor(base) and value(base).numel() == value(node).numel()

    def _move_views(self):
        g = self.g
        roots = {owner for owner in self.owner.values() if owner is not NO_OWNER}
        self.views = set()
        for root in sorted(roots, key=g.position.get, reverse=True):
            while root not in self.views and root is not g.loss and self._is_whole_view(root):
                base = root.args[0]
                if base not in self.owner:
                    break
                self.views.add(root)
                for node, owner in self.owner.items():
                    if owner is root:
                        self.owner[node] = base
                root = base
        self.roots = sorted({o for o in self.owner.values() if o is not NO_OWNER}, key=g.position.get)

    def _collect(self):
        g = self.g
        count = collections.Counter(self.key[root] for root in self.roots)
        seen = collections.Counter()
        layers, by_root = [], {}
        for root in self.roots:
            name = self.key[root] or "input"
            seen[self.key[root]] += 1
            if seen[self.key[root]] < count[self.key[root]]:
                name = f"{name}/{root.name}"
            by_root[root] = Layer(name, root)
            layers.append(by_root[root])
        for node, buffer in g.updates.items():
            self._home(node, layers, by_root).updates.append((node, buffer))
        for layer in layers:
            self._complete(layer, by_root)
        return layers

    def _home(self, node, layers, by_root):
        """The layer that updates a buffer: the last one whose nodes the new value is made of."""
        stack, seen, owners = [node], set(), set()
        while stack:
            n = stack.pop()
            if n in seen:
                continue
            seen.add(n)
            owner = self.owner.get(n)
            if owner is not None and owner in by_root:
                owners.add(owner)
            else:
                stack += n.all_input_nodes
        if owners:
            return by_root[max(owners, key=self.g.position.get)]
        same = [layer for layer in layers if self.key[layer.root] == self.key.get(node)]
        return (same or layers)[0]

    def _complete(self, layer, by_root):
        g = self.g
        need, stack = set(), [layer.root] + [node for node, _ in layer.updates]
        while stack:
            node = stack.pop()
            if node in need or is_size(node):
                continue
            need.add(node)
            if node.op != "placeholder" and not (node in by_root and node is not layer.root):
                stack += node.all_input_nodes
        given = sorted((n for n in need if n.op == "placeholder" or (n in by_root and n is not layer.root)),
                       key=g.position.get)
        layer.nodes = sorted(need - set(given), key=g.position.get)
        layer.parameters = [n for n in given if g.is_trained(n)]
        written = [name for _, name in layer.updates]
        layer.buffers = [n for n in g.kind if g.is_changed(n) and (n in need or g.target[n] in written)]
        layer.constants = [n for n in given if g.is_stored(n) and n not in layer.parameters + layer.buffers]
        layer.inputs = [n for n in given if not g.is_stored(n)]
