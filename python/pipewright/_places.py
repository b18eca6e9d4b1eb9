"""Lines of the user's model, as refusals name them: file:line of the innermost frame outside torch, Python and this package.

Where that is in an installed package, the innermost frame of the user's own files is named too, which called it.
"""

import os
import traceback

import torch

NOT_THE_MODEL = tuple(os.path.dirname(file) + os.sep for file in (torch.__file__, __file__))
PYTHON, INSTALLED = os.path.dirname(os.__file__) + os.sep, ("site-packages" + os.sep, "dist-packages" + os.sep)


def is_installed(file):
    return any(folder in file for folder in INSTALLED)


def is_of_model(file):
    return not (file.startswith(("<", *NOT_THE_MODEL)) or file.startswith(PYTHON) and not is_installed(file))


def place(frames):
    """Of pairs of file and line, the outermost first; "": none is the model's."""
    frames = [(file, line) for file, line in frames if is_of_model(file)]
    if not frames:
        return ""
    innermost, own = frames[-1], [frame for frame in frames if not is_installed(frame[0])]
    called = f", called at {own[-1][0]}:{own[-1][1]}" if own and own[-1] is not innermost else ""
    return f"{innermost[0]}:{innermost[1]}{called}"


def place_of_trace(text):
    """Of a stack as torch.export stores it with a node."""
    lines = [line.strip().split(",") for line in text.splitlines() if line.strip().startswith("File ")]
    return place([(file[len("File "):].strip('"'), line.replace("line", "").strip()) for file, line, *_ in lines])


def place_of_error(error, outermost):
    """Of what raised it; of a model without lines of its own, as nn.Sequential may be, the module."""
    return place_of_frames(list(traceback.walk_tb(error.__traceback__)), outermost)


def place_of_frame(frame, outermost):
    """Of the code that runs now; "": it is not called from the code object `outermost`."""
    frames = list(reversed(list(traceback.walk_stack(frame))))
    return place_of_frames(frames, outermost) if any(frame.f_code is outermost for frame, _ in frames) else ""


def place_of_frames(frames, outermost):
    start = next((i + 1 for i, (frame, _) in enumerate(frames) if frame.f_code is outermost), 0)
    found = place([(frame.f_code.co_filename, line) for frame, line in frames[start:]])
    return found or (module_of(frames[start - 1:]) if start else "")


def module_of(frames):
    """The innermost module that these frames run; the first of them is the outermost, an Objective's."""
    names = {id(part): name for name, part in frames[0][0].f_locals["self"].module.named_modules()}
    running = [frame.f_locals.get("self") for frame, _ in frames if frame.f_code.co_name == "forward"]
    found = [part for part in running if names.get(id(part))]
    return f"module {names[id(found[-1])]} ({type(found[-1]).__name__})" if found else ""


def at(where, text):
    return f"{where}: {text}" if where else text
