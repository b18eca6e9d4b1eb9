"""An own network, trained on two workers, its weights back in PyTorch: python examples/python/own_module.py"""

import torch

import pipewright as pw


class MyNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(4)])
        self.head = torch.nn.Linear(64, 10)

    def forward(self, features):
        for block in self.blocks:
            features = features + torch.relu(block(features))
        return self.head(features)


torch.manual_seed(0)
features = torch.randn(1024, 64)
target = (features @ torch.randn(64, 10)).argmax(1)  # what there is to learn

net = MyNet()
model = pw.export(net, (features[:8], target[:8]), loss="cross_entropy")
plan = pw.plan(model, cluster="2xcpu", minibatch=64, microbatch=16, planner="balanced")
print(plan)
run = pw.train(model, plan, data=[(features, target)], steps=160, optimizer="adam", lr=0.003, progress=False)
net.load_state_dict(run.state_dict())
accuracy = (net(features).argmax(1) == target).float().mean().item()
print(f"loss {run.losses[0]:.3f} to {run.losses[-1]:.3f}, accuracy {accuracy:.0%}")
