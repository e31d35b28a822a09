"""Small runs of marked loops of packages: a tiny model, little data, a few steps.

Each driver imports its package and returns a function without arguments that trains. What the
packages need is in `requirements.txt`; a driver whose imports fail is reported as not run.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.lint_truth.packages import declare_vision_operators
from benchmarks.training_loops.marks import Loop, source_of
from benchmarks.training_loops.observe import (
    Comparison,
    Watch,
    Watching,
    compare,
    observe_call,
)

Run = Callable[[], object]


def _vectors(count: int = 48, width: int = 6, classes: int = 3) -> TensorDataset:
    return TensorDataset(torch.randn(count, width), torch.randint(0, classes, (count,)))


def _sb3(name: str, environment: str, package: str = "stable_baselines3", **settings: Any) -> Run:
    algorithm = getattr(importlib.import_module(package), name)

    def run() -> None:
        steps = settings.pop("steps", 96)
        policy = settings.pop("policy", "MlpPolicy")
        algorithm(policy, environment, device="cuda", seed=0, **settings).learn(steps)

    return run


def sb3_ppo() -> Run:
    return _sb3("PPO", "CartPole-v1", n_steps=32, batch_size=8, n_epochs=2)


def sb3_dqn() -> Run:
    return _sb3("DQN", "CartPole-v1", learning_starts=16, train_freq=1, batch_size=8)


def sb3_sac() -> Run:
    return _sb3("SAC", "Pendulum-v1", learning_starts=16, batch_size=8)


def sb3_td3() -> Run:
    return _sb3("TD3", "Pendulum-v1", learning_starts=16, batch_size=8)


def sb3_a2c() -> Run:
    return _sb3("A2C", "CartPole-v1")


def tqc() -> Run:
    return _sb3("TQC", "Pendulum-v1", "sb3_contrib", learning_starts=16, batch_size=8)


def recurrent_ppo() -> Run:
    settings = {"n_steps": 16, "batch_size": 8, "n_epochs": 2, "policy": "MlpLstmPolicy"}
    return _sb3("RecurrentPPO", "CartPole-v1", "sb3_contrib", **settings)


def ctgan() -> Run:
    import numpy as np
    import pandas as pd
    from ctgan import CTGAN

    table = pd.DataFrame({"a": np.random.randn(100), "b": np.random.choice(list("xyz"), 100)})
    sizes = {"discriminator_dim": (8,), "generator_dim": (8,)}
    return lambda: CTGAN(epochs=2, batch_size=20, **sizes).fit(table, ["b"])


def tvae() -> Run:
    import numpy as np
    import pandas as pd
    from ctgan import TVAE

    table = pd.DataFrame({"a": np.random.randn(100), "b": np.random.choice(list("xyz"), 100)})
    sizes = {"compress_dims": (8,), "decompress_dims": (8,)}
    return lambda: TVAE(epochs=2, batch_size=20, **sizes).fit(table, ["b"])


def skorch() -> Run:
    import numpy as np
    from skorch import NeuralNetClassifier

    net = NeuralNetClassifier(
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)),
        criterion=nn.CrossEntropyLoss,
        max_epochs=2,
        batch_size=8,
        device="cuda",
        train_split=None,
    )
    inputs = np.random.randn(48, 6).astype(np.float32)
    return lambda: net.fit(inputs, np.random.randint(0, 3, 48))


def _ignite(name: str, **settings: Any) -> Run:
    import ignite.engine

    def run() -> None:
        model = nn.Linear(6, 3).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        make = getattr(ignite.engine, name)
        step = make(model, optimizer, nn.CrossEntropyLoss(), device="cuda", **settings)
        ignite.engine.Engine(step).run(DataLoader(_vectors(), batch_size=8), max_epochs=2)

    return run


def ignite_step() -> Run:
    return _ignite("supervised_training_step")


def ignite_amp() -> Run:
    return _ignite("supervised_training_step_amp")


def pyro_svi() -> Run:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO

    def model(data: torch.Tensor) -> None:
        zero, one = torch.zeros((), device="cuda"), torch.ones((), device="cuda")
        mean = pyro.sample("mean", dist.Normal(zero, one))
        with pyro.plate("rows", data.shape[0]):
            pyro.sample("data", dist.Normal(mean, one), obs=data)

    def guide(data: torch.Tensor) -> None:
        place = pyro.param("place", torch.zeros((), device="cuda"))
        pyro.sample("mean", dist.Normal(place, torch.ones((), device="cuda")))

    def run() -> None:
        svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.01}), loss=Trace_ELBO())
        data = torch.randn(20, device="cuda")
        for _ in range(8):
            svi.step(data)

    return run


def smp() -> Run:
    # The package itself imports many libraries that the loop does not need.
    name = "segmentation_models_pytorch"
    package = types.ModuleType(name)
    package.__path__ = [str(Path(folder, name)) for folder in sys.path]
    sys.modules[name] = package
    from segmentation_models_pytorch.utils.train import TrainEpoch

    class Loss(nn.MSELoss):
        __name__ = "mse"

    class Score(nn.L1Loss):
        __name__ = "score"

    def run() -> None:
        model = nn.Conv2d(1, 1, 3, padding=1)
        data = TensorDataset(torch.randn(24, 1, 8, 8), torch.rand(24, 1, 8, 8))
        optimizer = torch.optim.Adam(model.parameters())
        epoch = TrainEpoch(model, Loss(), [Score()], optimizer, device="cuda", verbose=False)
        epoch.run(DataLoader(data, batch_size=4))

    return run


def tabnet() -> Run:
    import numpy as np
    from pytorch_tabnet.tab_model import TabNetClassifier

    x, y = np.random.randn(64, 6).astype(np.float32), np.arange(64) % 3

    def run() -> None:
        model = TabNetClassifier(n_d=4, n_a=4, device_name="cuda", verbose=0)
        model.fit(x, y, max_epochs=2, batch_size=16, virtual_batch_size=8)

    return run


def tabnet_pretrain() -> Run:
    import numpy as np
    from pytorch_tabnet.pretraining import TabNetPretrainer

    x = np.random.randn(64, 6).astype(np.float32)

    def run() -> None:
        model = TabNetPretrainer(n_d=4, n_a=4, device_name="cuda", verbose=0)
        model.fit(x, max_epochs=2, batch_size=16, virtual_batch_size=8)

    return run


def metric_learning() -> Run:
    from pytorch_metric_learning import losses, trainers

    def run() -> None:
        trunk, embedder = nn.Linear(6, 8).to("cuda"), nn.Linear(8, 4).to("cuda")
        trainers.MetricLossOnly(
            {"trunk": trunk, "embedder": embedder},
            {"trunk_optimizer": torch.optim.SGD(trunk.parameters(), lr=0.1)},
            8,
            {"metric_loss": losses.ContrastiveLoss()},
            _vectors(),
            dataloader_num_workers=0,
            data_device=torch.device("cuda"),
        ).train(num_epochs=2)

    return run


def gnn_explainer() -> Run:
    from torch_geometric.explain import Explainer, GNNExplainer
    from torch_geometric.nn import GCNConv

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(4, 3)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.conv(x, edge_index).log_softmax(dim=-1)

    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "log_probs"}

    def run() -> None:
        explainer = Explainer(
            model=Net().to("cuda"),
            algorithm=GNNExplainer(epochs=8),
            explanation_type="model",
            node_mask_type="attributes",
            edge_mask_type="object",
            model_config=config,
        )
        x = torch.randn(6, 4, device="cuda")
        edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]], device="cuda")
        explainer(x, edges, index=2)

    return run


def d3rlpy_dqn() -> Run:
    import d3rlpy
    import numpy as np

    def run() -> None:
        count = 64
        data = d3rlpy.dataset.MDPDataset(
            np.random.randn(count, 4).astype(np.float32),
            np.random.randint(0, 2, count),
            np.random.randn(count).astype(np.float32),
            (np.arange(count) % 16 == 15).astype(np.float32),
        )
        algorithm = d3rlpy.algos.DQNConfig(batch_size=8).create(device="cuda:0")
        algorithm.fit(data, n_steps=16, n_steps_per_epoch=8, show_progress=False)

    return run


def lightning_transformer() -> Run:
    from lightning.pytorch.demos.transformer import Transformer

    def run() -> None:
        model = Transformer(vocab_size=20, ninp=8, nhead=2, nhid=8, nlayers=1).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            tokens = torch.randint(0, 20, (4, 5), device="cuda")
            loss = nn.functional.nll_loss(model(tokens, tokens), tokens.view(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


#: The loops that one run of a driver shows, by driver.
DRIVERS: dict[str, tuple[Callable[[], Run], tuple[str, ...]]] = {
    "sb3-ppo": (sb3_ppo, ("sb3-ppo-update", "sb3-collect-rollouts")),
    "sb3-dqn": (sb3_dqn, ("sb3-dqn-update",)),
    "sb3-sac": (sb3_sac, ("sb3-sac-update",)),
    "sb3-td3": (sb3_td3, ("sb3-td3-update",)),
    "sb3-a2c": (sb3_a2c, ("sb3-a2c-update",)),
    "sb3-contrib-tqc": (tqc, ("sb3-contrib-tqc-update",)),
    "sb3-contrib-recurrent-ppo": (recurrent_ppo, ("sb3-contrib-recurrent-ppo-update",)),
    "ctgan": (ctgan, ("ctgan-fit",)),
    "tvae": (tvae, ("ctgan-tvae-fit",)),
    "skorch": (skorch, ("skorch-run-single-epoch",)),
    "ignite": (ignite_step, ("ignite-supervised-step",)),
    "ignite-amp": (ignite_amp, ("ignite-supervised-step-amp",)),
    "pyro": (pyro_svi, ("pyro-svi-step",)),
    "smp": (smp, ("smp-epoch-run",)),
    "tabnet": (tabnet, ("tabnet-train",)),
    "tabnet-pretrain": (tabnet_pretrain, ("tabnet-pretrain",)),
    "pml": (metric_learning, ("pml-trainer",)),
    "gnn-explainer": (gnn_explainer, ("pyg-gnn-explainer",)),
    "lightning-transformer": (lightning_transformer, ("lightning-demo-transformer",)),
    "d3rlpy": (d3rlpy_dqn, ("d3rlpy-dqn-update",)),
}

#: Loops whose steps are those of an environment, not of an optimizer.
ENVIRONMENT_STEPS = frozenset({"sb3-collect-rollouts"})

#: Packages that another one imports.
NEEDS = {"sb3-contrib": "stable-baselines3"}


def run_all(
    loops: Sequence[Loop], folder: Path, watching: Watching
) -> tuple[dict[str, Comparison], dict[str, str]]:
    """Run every driver; return the comparisons by loop, and why a driver did not run."""
    by_name = {loop.name: loop for loop in loops}
    folders = {loop.package.name: loop.package.folder for loop in loops if loop.package}
    declare_vision_operators()
    comparisons, not_run = {}, {}
    for driver, (make, names) in DRIVERS.items():
        shown = [by_name[name] for name in names]
        package = shown[0].package.name if shown[0].package else ""
        wanted = [package, NEEDS.get(package, package)]
        sys.path[:0] = [str(folder / folders[name]) for name in wanted]
        try:
            run = make()
        except ImportError as error:
            not_run[driver] = str(error)
            continue
        files = {source_of(loop, part, folder) for loop in shown for part in loop.parts}
        with _scratch_folder():
            watch = observe_call(files, watching, run)
        for loop in shown:
            mine = _in_environment_steps(loop, folder, watch)
            comparisons[loop.name] = compare(loop, mine, folder)
    return comparisons, not_run


@contextlib.contextmanager
def _scratch_folder() -> Iterator[None]:
    """Work in a temporary folder: packages write logs to the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _in_environment_steps(loop: Loop, folder: Path, watch: Watch) -> Watch:
    """The watch; for a loop of `ENVIRONMENT_STEPS`, its own events without optimizer steps."""
    if loop.name not in ENVIRONMENT_STEPS:
        return watch
    parts = [(str(source_of(loop, part, folder)), part) for part in loop.parts]
    events = {
        (file, line): steps
        for (file, line), steps in watch.events.items()
        if any(file == path and part.covers(line) for path, part in parts)
    }
    return Watch(watch.files, events=events)
