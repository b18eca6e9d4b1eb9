"""pipewright.export(): a PyTorch module as a file that Pipewright plans and simulates."""

import json
import os
import weakref

import torch

from ._borders import Border
from ._capture import PREFIX, capture
from ._costs import flops_per_sample, traffic_line
from ._failures import first_line
from ._functions import Functions
from ._layers import Graph, Grouping
from ._pictures import table
from ._places import at
from ._tokens import TOKEN_SHARE, token_counter
from ._values import MASKS, NUMBER_TYPES, STORED_TYPES, DataSize, ExportError, has_data_size, place_of, refuse, sized

FORMAT, VERSION = "pipewright/exported", 1


class ExportedModel:
    """A model as Pipewright reads it: a description and named tensors.

    save("mynet") writes mynet.json, which stands for MODEL in commands, and mynet.safetensors.
    """

    def __init__(self, description, tensors):
        self.description, self.tensors = description, tensors
        self.count_tokens = None  # of a mean over tokens: how many of a batch's targets count, by sample
        self.file = None  # where it was saved
        self.module = None  # a weak reference to the module that was exported

    @property
    def name(self):
        return self.description["name"]

    @property
    def layers(self):
        """The names of the layers, in order."""
        return [layer["name"] for layer in self.description["layers"]]

    def _repr_html_(self):
        sizes = {row["name"]: self.tensors[row["name"]].numel() for row in self.description["parameters"]}
        rows = [{"layer": layer["name"], "output": "x".join(map(str, layer["output"]["shape"])) or "1",
                 "parameters": sum(sizes[name] for name in layer.get("parameters", []))}
                for layer in self.description["layers"]]
        return f"<p>{self!r}</p>" + table(rows)

    def __repr__(self):
        count = sum(self.tensors[row["name"]].numel() for row in self.description["parameters"])
        return f"ExportedModel({self.name}: {len(self.layers)} layers, {count:,} parameters)"

    def save(self, path):
        """Writes path.json and path.safetensors; returns the name of the first."""
        from safetensors.torch import save_file

        path = os.fspath(path).removesuffix(".json")
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        weights = path + ".safetensors"
        save_file(self.tensors, weights + ".part")
        os.replace(weights + ".part", weights)
        self.description["weights"] = os.path.basename(weights)
        with open(path + ".json.part", "w") as file:
            file.write(file_text(self.description))
        os.replace(path + ".json.part", path + ".json")
        self.file = os.path.abspath(path + ".json")
        return path + ".json"


def file_text(description):
    """JSON with one line per layer and per operator."""
    lines = []
    for key, entry in description.items():
        if key == "functions":
            text = "[\n" + ",\n".join(function_text(function) for function in entry) + "]"
        elif isinstance(entry, list) and entry:
            text = "[\n" + ",\n".join("    " + json.dumps(element) for element in entry) + "]"
        else:
            text = json.dumps(entry)
        lines.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def function_text(function):
    lines = []
    for key, entry in function.items():
        text = json.dumps(entry)
        if isinstance(entry, dict) and entry.get("code"):
            code = ",\n".join("        " + json.dumps(line) for line in entry["code"])
            rest = json.dumps({k: v for k, v in entry.items() if k != "code"})[1:-1]
            text = "{" + rest + ', "code": [\n' + code + "]}"
        lines.append(f"      {json.dumps(key)}: {text}")
    return "    {\n" + ",\n".join(lines) + "}"


def plain(name):
    return name.removeprefix(PREFIX)


def is_same(one, other):
    """Whether two tensors are the same memory: one weight under two names."""
    return (one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride() and
            one.dtype == other.dtype and one.numel() > 0)


def contiguous(tensor):
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


class Exporter:
    def __init__(self, module, sample, loss, block, weigh_tokens):
        program, self.arguments = capture(module, sample, loss, weigh_tokens)
        names = self.arguments.names
        self.count_tokens = token_counter(program, names) if names[-1] == TOKEN_SHARE else None
        self.graph = Graph(program)
        self.layers = Grouping(self.graph, block).layers()
        for layer in self.layers:
            if layer.name in names:  # a module may have the name of an input
                layer.name = f"{layer.name}/{layer.root.name}"
        self.module, self.name = weakref.ref(module), type(module).__name__
        self.state = {name: t.detach() for name, t in module.state_dict().items() if isinstance(t, torch.Tensor)}
        self.index = {layer.root: i for i, layer in enumerate(self.layers)}
        self.borders = {layer.root: Border(layer) for layer in self.layers}
        self.functions, self.known = [], {}
        self.needs_gradient = {}

    def model(self):
        parameters, buffers = self.parameters(), self.buffers()
        layers = [self.layer(layer) for layer in self.layers]
        description = {
            "format": FORMAT, "version": VERSION, "name": self.name, "torch": torch.__version__.split("+")[0],
            "weights": "", "inputs": self.inputs(), "parameters": parameters, "buffers": buffers,
            "functions": self.functions, "layers": layers}
        model = ExportedModel(description, self.tensors())
        model.count_tokens, model.module = self.count_tokens, self.module
        return model

    def inputs(self):
        rows = []
        used = {node for layer in self.layers for node in layer.inputs}
        for node, name, sample in zip(self.graph.inputs, self.arguments.names, self.arguments.tensors):
            if node not in used:
                raise ExportError(f"the input {name} is not used; leave it out of the sample inputs")
            row = {"name": name, "shape": list(sample.shape[1:]), "type": NUMBER_TYPES[sample.dtype]}
            if not sample.dtype.is_floating_point:
                row["below"] = max(1, int(sample.max()) + 1)
            rows.append(row)
        return rows

    def parameters(self):
        rows, seen = [], set()
        for layer in self.layers:
            for node in layer.parameters:
                name = self.graph.tied[self.graph.target[node]]
                if name in seen:
                    continue
                seen.add(name)
                row = self.tensor_row(name, node)
                also = [n for n in self.state if n != plain(name) and is_same(self.state[n], self.graph.tensor(name))]
                if also:
                    row["also"] = also
                rows.append(row)
        return rows

    def buffers(self):
        """Frozen parameters are among them."""
        rows, seen = [], set()
        for layer in self.layers:
            for node in layer.constants + layer.buffers:
                name = self.graph.target[node]
                if name in seen:
                    continue
                seen.add(name)
                rows.append(self.tensor_row(name, node))
                if plain(name) not in self.state:
                    rows[-1]["persistent"] = False
        return rows

    def tensor_row(self, name, node):
        tensor = self.graph.tensor(name)
        if tensor.dtype not in STORED_TYPES:
            hint = "make it a parameter of real pairs, and use torch.view_as_complex(it) here"
            refuse(node, f"{plain(name)} has type {tensor.dtype}, which is not supported",
                   hint if tensor.is_complex() else "convert it, for example to torch.int64 or torch.float32")
        return {"name": plain(name), "shape": list(tensor.shape), "type": NUMBER_TYPES[tensor.dtype]}

    def layer(self, layer):
        wanted = [self.needs_gradient.get(node, False) for node in layer.inputs]
        self.needs_gradient[layer.root] = bool(layer.parameters) or any(wanted)
        try:
            functions = Functions(layer, wanted, self.borders)
        except ExportError:
            raise
        except Exception as error:
            refuse(layer.root, f"the backward of layer {layer.name} cannot be traced: {first_line(error)}",
                   "use operators that PyTorch can differentiate for any batch size, and give export() a sample batch of "
                   "another size")
        tensor, is_fixed = functions.output_value, self.borders[layer.root].is_fixed
        shape = [int(size) for size in (tensor.shape if is_fixed else tensor.shape[1:])]
        row = {"name": layer.name.replace(" ", "_"), "function": self.function(functions), "from": self.sources(layer)}
        if layer.parameters:
            row["parameters"] = [plain(self.graph.tied[self.graph.target[n]]) for n in layer.parameters]
        if layer.buffers:
            row["buffers"] = [plain(self.graph.target[n]) for n in layer.buffers]
            row["updates"] = [plain(name) for _, name in layer.updates]
        if layer.constants:
            row["constants"] = [plain(self.graph.target[n]) for n in layer.constants]
        row["output"] = {"shape": shape, "type": NUMBER_TYPES[tensor.dtype]}
        if is_fixed:
            row["output"]["fixed"] = True
        return row

    def sources(self, layer):
        names = {node: name for node, name in zip(self.graph.inputs, self.arguments.names)}
        return [self.layers[self.index[n]].name.replace(" ", "_") if n in self.index else names[n]
                for n in layer.inputs]

    def function(self, functions):
        """The number of the function in the file; equal ones are stored once."""
        where = at(place_of(functions.layer.root), f"what layer {functions.layer.name} keeps for backward")
        entry = {
            "keeps_inputs": [functions.inputs.index(node) for node in functions.kept_inputs],
            "keeps_output": functions.keeps_output,
            "forward_batch": functions.forward_batch(),
            "backward_batch": functions.backward_batch(),
            "updates": len(functions.updates), "reads_buffers": functions.reads_buffers(),
            "mixes_samples": functions.mixes_samples(),
            "private": len(functions.private), "private_bytes": sized(functions.private_bytes, where),
            "carried": len(functions.carried), "carried_bytes": sized(functions.carried_bytes, where),
            "traffic_bytes": traffic_line(functions.forward_nodes),
            "flops": [round(flops_per_sample(functions.nodes_of(part)), 3)
                      for part in ("forward", "backward_input", "backward_weight")],
            **self.code(functions)}
        text = json.dumps(entry)
        if text not in self.known:
            self.known[text] = len(self.functions)
            self.functions.append(entry)
        return self.known[text]

    def code(self, functions):
        try:
            return functions.code()
        except DataSize:
            made = next((node for node in functions.layer.nodes if has_data_size(node)), None)
            if made is None:
                raise
            refuse(made, f"how much {made.target} selects depends on the data, not on the batch alone", MASKS)

    def tensors(self):
        """Those of the file, and what the module's state_dict() has besides: it is in the trained weights, too."""
        names = {row["name"] for row in self.parameters() + self.buffers()}
        tied = {name for row in self.parameters() for name in row.get("also", [])}
        stored = {name: contiguous(t) for name, t in self.state.items() if name not in names | tied}
        for node in self.graph.target:
            if self.graph.is_stored(node) and plain(self.graph.target[node]) in names:
                stored[plain(self.graph.target[node])] = contiguous(self.graph.tensor(self.graph.target[node]))
        return stored


def refuse_what_is_no_module(given):
    if isinstance(given, torch.nn.Module):
        return
    if isinstance(given, type):
        raise ExportError(f"{given.__name__} is a class; make a module of it: export({given.__name__}(...), ...)")
    raise ExportError(f"export() takes an nn.Module, not a {type(given).__name__}; call the function in the forward() of a "
                      "module" if callable(given) else f"export() takes an nn.Module, not a {type(given).__name__}")


def export(module, sample_inputs, loss=None, blocks=None, weigh_tokens=None):
    """Captures a module and its loss for Pipewright.

    module         an nn.Module; its weights, frozen parameters and buffers are stored too
    sample_inputs  a batch as the module takes it: a tensor, a tuple, or a dictionary of keyword arguments. The first
                   dimension of every tensor is the batch; the other sizes, a sequence's length too, are fixed.
    loss           None: the module returns the loss, or something with .loss (Hugging Face's labels). Else
                   "cross_entropy", "mse", or a function of output and target; the target is then the last of the sample
                   inputs, or those of the dictionary that forward does not take.
    blocks         a function from a module's path to the name of its layer ("" joins the previous one). Default: the
                   path up to its first number, or a module with parameters of its own.
    weigh_tokens   True: a cross entropy is a mean over the targets of a whole minibatch that are not ignored, with the
                   weights of their classes, however many of them each microbatch has. Default: where a sample input has
                   ignored targets (-100), or the loss is given weights of classes or another ignore_index.

    Raises ExportError, which names the line of the model and what to change.
    """
    refuse_what_is_no_module(module)
    return Exporter(module, sample_inputs, loss, blocks, weigh_tokens).model()
