"""Pipewright: pipeline-parallel training, planned.

    import pipewright as pw
    model = pw.export(MyNet(), (x, y), loss="cross_entropy")
    model.save("mynet")

and then, in a shell:

    pipewright plan --model mynet.json --cluster 2xA100-40@nvlink --minibatch 64 -o plan.json
    pipewright simulate plan.json --cluster 2xA100-40@nvlink
"""

from ._exporter import ExportedModel, export
from ._values import ExportError

__all__ = ["ExportError", "ExportedModel", "export"]
