"""The optimizer of train() as options of the program: a name and groups of parameters, or one of torch.optim."""

import torch

from ._exporter import ExportedModel
from ._program import PipewrightError

FIGURES = {"lr": "lr", "weight_decay": "weight-decay"}
NOT_SUPPORTED = ("amsgrad", "maximize", "dampening")


def parameters_of(model):
    """The parameters of the module that was exported, by the names in the exported model."""
    module = model.module() if isinstance(model, ExportedModel) and model.module is not None else None
    if module is None:
        raise PipewrightError("groups of parameters need the module that export() was given; keep it, or name the "
                              "parameters by patterns, such as \"*.bias\"")
    known = dict(module.named_parameters(remove_duplicate=False))
    return {row["name"]: known[row["name"]] for row in model.description["parameters"]}


def patterns_of(params, model):
    """Names and patterns of a group that has those, or parameters themselves. Frozen ones are left out."""
    items = [params] if isinstance(params, (str, torch.Tensor)) else list(params)
    if all(isinstance(item, str) for item in items):
        return items
    chosen = {id(item) for item in items}
    return [name for name, parameter in parameters_of(model).items() if id(parameter) in chosen]


def group_words(group, model):
    """--group PATTERNS:SETTINGS of {"params": ..., "lr": ..., "weight_decay": ...}."""
    unknown = [key for key in group if key != "params" and key not in FIGURES]
    if unknown or "params" not in group:
        raise PipewrightError(f"a group of parameters has params, lr and weight_decay, not {', '.join(unknown)}"
                              if unknown else "a group of parameters has no params: names, patterns or parameters")
    patterns = patterns_of(group["params"], model)
    settings = [f"{FIGURES[key]}={float(group[key])!r}" for key in FIGURES if key in group]
    if not patterns:
        return []
    return ["--group", ",".join(name.replace(",", "?") for name in patterns) + ":" + ",".join(settings)]


def from_torch(optimizer, model):
    """Options and groups of an optimizer of torch.optim: SGD, Adam or AdamW."""
    first, *rest = optimizer.param_groups
    is_decoupled = first.get("decoupled_weight_decay", False) or isinstance(optimizer, torch.optim.AdamW)
    if isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
        options = {"optimizer": "adamw" if is_decoupled else "adam", "betas": first["betas"], "eps": first["eps"]}
    elif isinstance(optimizer, torch.optim.SGD):
        options = {"optimizer": "sgd", "momentum": first["momentum"], "nesterov": first["nesterov"]}
    else:
        raise PipewrightError(f"the optimizer is {type(optimizer).__name__}; give SGD, Adam or AdamW of torch.optim")
    for group in optimizer.param_groups:
        wrong = [key for key in NOT_SUPPORTED if group.get(key)]
        wrong += [key for key in ("betas", "eps", "momentum", "nesterov") if group.get(key) != first.get(key)]
        if wrong:
            raise PipewrightError(f"a group of the optimizer sets {wrong[0]}, which train() does not; its groups differ "
                                  "in lr and weight_decay only")
    if optimizer.state:
        raise PipewrightError("the optimizer has made steps, and its state is not taken over; give a new one")
    chosen = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    left_out = [name for name, parameter in parameters_of(model).items() if id(parameter) not in chosen]
    if left_out:
        raise PipewrightError(f"the optimizer does not have {', '.join(left_out)}; freeze what is not to be trained by "
                              "requires_grad_(False), before export()")
    settings = [{key: group.get("initial_" + key, group[key]) for key in FIGURES} for group in optimizer.param_groups]
    groups = [{"params": group["params"], **own} for group, own in zip(rest, settings[1:])]
    return {**options, **settings[0]}, groups


def optimizer_words(model, optimizer, groups, options):
    """Words for the program, and the options that remain, of what train() was given."""
    groups, options = list(groups or []), dict(options)
    if isinstance(optimizer, torch.optim.Optimizer):
        given, own = from_torch(optimizer, model)
        groups, options = groups + own, {**given, **options}
    elif optimizer is not None:
        options["optimizer"] = optimizer
    if options.get("betas") is not None:
        options["beta1"], options["beta2"] = options["betas"]
    if options.get("eps") is not None:
        options["epsilon"] = options["eps"]
    options.pop("betas", None), options.pop("eps", None)
    return [word for group in groups for word in group_words(group, model)], options
